"""Scripts that set no constant: a list that is not measured yet has no script that any figure uses."""

from __future__ import annotations

from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="the lists of scripts are read by Python 3.11 and later")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_a_spent_script_is_on_the_page_that_measured_it() -> None:
    from corpus_script import read_corpus
    from unseen_whatifs import LIST

    for script in read_corpus(LIST):
        if script.spent:
            page = BENCHMARKS / "results" / f"{script.spent}.md"
            assert Path(script.path).name in page.read_text(encoding="utf-8")


def test_a_script_to_be_measured_is_of_a_repository_that_nothing_else_uses() -> None:
    from corpus_script import read_corpus
    from unseen_whatifs import LIST

    unseen = read_corpus(LIST)
    fresh = {script.repository for script in unseen if not script.spent}
    assert not fresh & {script.repository for script in read_corpus()}
    assert not fresh & {script.repository for script in unseen if script.spent}
    held_out = tomllib.loads((BENCHMARKS / "held_out.toml").read_text(encoding="utf-8"))["script"]
    named = [one["path"] for one in held_out]
    pages = [page.read_text(encoding="utf-8") for page in (BENCHMARKS / "results").glob("*.md")]
    for repository in fresh:
        assert not any(path.startswith(repository) for path in named)
        assert not any(repository in page for page in pages)


def test_data_of_the_lists_can_be_made() -> None:
    from corpus_data import MAKERS
    from corpus_script import read_corpus
    from unseen_whatifs import LIST

    assert {what for script in read_corpus(LIST) for what, _ in script.data} <= set(MAKERS)
