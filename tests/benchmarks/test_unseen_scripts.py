"""Scripts that set nothing: a list that is still to be measured overlaps nothing that any figure rests on."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomllib
from corpus_script import CorpusScript, read_corpus
from unseen_whatifs import LIST

BENCHMARKS = LIST.parent
_SCRIPTS = read_corpus(LIST)


@pytest.mark.parametrize("script", [one for one in _SCRIPTS if one.spent], ids=lambda one: one.name)
def test_a_spent_script_names_the_page_that_measured_it(script: CorpusScript):
    page = BENCHMARKS / "results" / f"{script.spent}.md"
    assert Path(script.path).name in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("script", [one for one in _SCRIPTS if not one.spent], ids=lambda one: one.name)
def test_a_script_to_be_measured_is_of_a_repository_that_nothing_else_uses(script: CorpusScript):
    others = {one.repository for one in read_corpus()} | {one.repository for one in _SCRIPTS if one.spent}
    assert script.repository not in others
    held_out = tomllib.loads((BENCHMARKS / "held_out.toml").read_text(encoding="utf-8"))["script"]
    assert not any(one["path"].startswith(script.repository) for one in held_out)


@pytest.mark.parametrize("script", [one for one in _SCRIPTS if not one.spent], ids=lambda one: one.name)
def test_no_results_page_names_a_script_to_be_measured(script: CorpusScript):
    pages = (BENCHMARKS / "results").glob("*.md")
    assert not [page.name for page in pages if script.repository in page.read_text(encoding="utf-8")]
