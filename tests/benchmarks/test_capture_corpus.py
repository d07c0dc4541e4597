"""The corpus of public training scripts: its list, its checkouts and data, and what its page says."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tomllib", reason="the list of the corpus is read by Python 3.11 and later")


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_list_is_complete() -> None:
    from corpus_data import MAKERS
    from corpus_script import read_corpus

    corpus = read_corpus()
    assert sum(not script.unavailable for script in corpus) >= 30
    assert {what for script in corpus for what, _ in script.data} <= set(MAKERS)
    assert all(len(script.commit) == 40 and script.path.endswith(".py") for script in corpus)


ENTRY = '[[script]]\nname = "one"\nstyle = ""\nrepository = "ada/{}"\npath = "a.py"\n'


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (ENTRY.format("other"), "pins no commit of ada/other"),
        (ENTRY.format("train") * 2, "two scripts named one"),
    ],
)
def test_a_list_with_a_mistake_is_refused(tmp_path: Path, entries: str, message: str) -> None:
    from corpus_script import read_corpus

    file = tmp_path / "corpus.toml"
    file.write_text(f'[commits]\n"ada/train" = "{"0" * 40}"\n{entries}', encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_corpus(file)


def test_a_checkout_comes_from_a_folder_of_bare_clones_at_the_pinned_commit(tmp_path: Path) -> None:
    from corpus_checkout import NotFetched, checkout

    source = tmp_path / "source"
    source.mkdir()
    git(source, "init", "--quiet")
    for number in (1, 2):
        (source / "train it.py").write_text(f"version = {number}\n", encoding="utf-8")
        git(source, "add", "-A")
        git(source, "commit", "--quiet", "-m", f"{number}")
    first = git(source, "rev-parse", "HEAD~1")
    mirror, checkouts = tmp_path / "mirror", tmp_path / "checkouts"
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", str(source), str(mirror / "ada+train.git")], check=True
    )
    found = checkout("ada/train", first, checkouts, mirror)
    assert (found / "train it.py").read_text(encoding="utf-8") == "version = 1\n"
    assert checkout("ada/train", first, checkouts, None) == found, "a checkout is used again"
    with pytest.raises(NotFetched, match="lacks commit"):
        checkout("ada/train", "f" * 40, tmp_path / "others", mirror)


def test_made_data_have_the_sizes_of_the_real_ones(tmp_path: Path) -> None:
    import corpus_data

    corpus_data.mnist(tmp_path, train=30, test=20)
    raw = tmp_path / "MNIST" / "raw"
    assert (raw / "train-images-idx3-ubyte").stat().st_size == 16 + 30 * 28 * 28
    assert (raw / "t10k-labels-idx1-ubyte").stat().st_size == 8 + 20
    (tmp_path / "cora.cites").write_text("35\t1033\n35\t7\n", encoding="utf-8")
    corpus_data.cora(tmp_path)
    rows = [line.split("\t") for line in (tmp_path / "cora.content").read_text(encoding="utf-8").splitlines()]
    assert [row[0] for row in rows] == ["7", "35", "1033"]
    assert {len(row) for row in rows} == {1 + 1433 + 1}


def works(**changes: Any) -> dict[str, Any]:
    return {
        "works": True,
        "headline_s": 5.0,
        "skyline_ms": 10.0,
        "overhead": 1.2,
        "attributed": 0.99,
        "meaning": "one step of Adam",
    } | changes


def test_what_cannot_run_without_skyline_is_not_counted_against_it() -> None:
    from corpus_page import summary

    said = summary(
        [
            works(headline_s=3.0),
            works(headline_s=9.0, ratio={"value": 1.02}, null={"value": 1.0}, steady=True),
            works(ratio={"value": 2.0}, null={"value": 0.8}, steady=False),
            {"works": False, "reason": "no training step", "runs_by_hand": True},
            {"works": False, "reason": "it raised", "runs_by_hand": False, "own_error": "ImportError: gym"},
            {"not_run": "needs weights"},
        ]
    )
    assert "6 listed, 1 not run, 1 fail here without Skyline too" in said
    assert "3 of the other 4 work unmodified (75%)" in said
    assert "median 1.020, median distance from one 2.0%, over the 1 of 2 timed" in said


def test_the_page_says_why_a_script_does_not_work() -> None:
    from corpus_page import page
    from corpus_script import CorpusScript

    scripts = [CorpusScript(name, "plain", "ada/train", "0" * 40, f"{name}.py") for name in "abc"]
    rows: dict[str, dict[str, Any]] = {
        "a": works(),
        "b": {"works": False, "reason": "no training\nstep | found", "runs_by_hand": True},
    }
    text = page(scripts, rows, "Nothing is mended.", threads=1)
    assert "| ada/train/b.py | plain" in text
    assert "no training step \\| found" in text
    assert "c.py" not in text


TRAINING = """
{first}
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10**6):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


@pytest.mark.capture
@pytest.mark.parametrize("breaks", [False, True])
def test_a_script_is_profiled_or_its_own_error_is_told(
    tmp_path: Path, breaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corpus_measure import measure

    from skyline.capture import session

    whole = session.capture
    monkeypatch.setattr(
        session, "capture", lambda asked, **options: whole(replace(asked, settle_s=0.1), **options)
    )

    script = tmp_path / "train.py"
    first = "import no_such_module_here" if breaks else ""
    script.write_text(TRAINING.format(first=first), encoding="utf-8")
    outcome = measure(
        {
            "script": str(script),
            "folder": str(tmp_path),
            "arguments": [],
            "interpreter": sys.executable,
            "stopwatch": False,
        }
    )
    if breaks:
        assert not outcome["works"]
        assert not outcome["runs_by_hand"]
        assert outcome["own_error"] == "ModuleNotFoundError: No module named 'no_such_module_here'"
    else:
        assert outcome["works"], outcome
        assert float(str(outcome["skyline_ms"])) > 0
        assert float(str(outcome["attributed"])) > 0.9
