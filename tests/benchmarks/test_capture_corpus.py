"""The corpus of public training scripts: its list, its checkouts, its data and its page."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.trace.profile import Profile

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
    assert all(len(script.commit) == 40 and script.path.endswith((".py", ".ipynb")) for script in corpus)
    assert sum(not script.is_notebook for script in corpus) >= 120
    assert sum(script.is_notebook for script in corpus) >= 10


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
    text = page(scripts, rows, {}, "Nothing is mended.", threads=1)
    assert "| ada/train/b.py | plain" in text
    assert "no training step \\| found" in text
    assert "c.py" not in text


def test_the_page_says_of_each_batch_size_what_came_of_it() -> None:
    from corpus_page import page
    from corpus_script import CorpusScript

    scripts = [CorpusScript(name, "plain", "ada/train", "0" * 40, f"{name}.py") for name in "abcde"]
    right = {"size": 64, "seen": 64, "place": "a.py:7", "found": True, "rewritten": "right", "said": ""}
    wrong = right | {"rewritten": "wrong", "said": "asked for 32, the run showed 64"}
    missed = {
        "size": 8,
        "seen": 16,
        "place": "",
        "found": False,
        "rewritten": "",
        "said": "Nothing holds it.",
    }
    batches = [right, wrong, missed, {"size": 0, "seen": None, "place": ""}, {}]
    rows = {
        script.name: works(batch=batch, run="2001-02-03, a chip")
        for script, batch in zip(scripts, batches, strict=True)
    }
    text = page(scripts, rows, {"2001-02-03, a chip": "A chip."}, "Nothing is mended.", threads=1)
    assert "of the 3 scripts that work and have one" in text
    assert "**found in 2 (67%)**" in text
    assert "right in 1, refused in 0, wrong in 1" in text
    assert "64 (a.py:7): right" in text
    assert "8: not found; 16 shown" in text
    assert "has none" in text
    assert "- b: wrong: asked for 32, the run showed 64" in text
    assert text.count("| 2001-02-03 |") == 5


def test_a_row_without_times_has_none_in_the_page() -> None:
    from corpus_page import page, summary
    from corpus_script import CorpusScript

    untimed = {name: value for name, value in works().items() if name in ("works", "attributed", "meaning")}
    assert "1 of the other 1 work unmodified" in summary([untimed])
    assert "Medians" not in summary([untimed])
    assert "headline after 5.0 s" in summary([untimed, works()])
    script = CorpusScript("a", "plain", "ada/train", "0" * 40, "a.py")
    line = next(one for one in page([script], {"a": untimed}, {}, "", threads=1).split("\n") if "a.py" in one)
    assert [cell.strip() for cell in line.split("|")[4:9]] == [""] * 5


def test_a_page_keeps_the_rows_of_earlier_runs(tmp_path: Path) -> None:
    import argparse
    import json

    from capture_corpus import _publish
    from corpus_script import CorpusScript
    from machine import Machine

    scripts = tuple(CorpusScript(name, "plain", "ada/train", "0" * 40, f"{name}.py") for name in "abc")
    figures = {
        "machines": {"2001-02-03, a chip": "2001-02-03T04:05:06: a chip", "2000-01-01, none": "gone"},
        "rows": {name: works(run="2001-02-03, a chip") for name in ("a", "b", "removed")},
    }
    kept = tmp_path / "capture_corpus.json"
    kept.write_text(json.dumps({"machine": {}, "figures": figures}), encoding="utf-8")
    machine = Machine("2026-11-26T01:02:03", "another chip", 2, "Linux", "3.11", "2.13", "0.1", 0.0)
    options = argparse.Namespace(results=tmp_path, threads=1)
    _publish(scripts, {"b": works(run="2026-11-26, another chip")}, machine, options, "")
    written = json.loads(kept.read_text(encoding="utf-8"))["figures"]
    assert {name: row["run"][:4] for name, row in written["rows"].items()} == {"a": "2001", "b": "2026"}
    assert list(written["machines"]) == ["2001-02-03, a chip", "2026-11-26, another chip"]
    text = (tmp_path / "capture_corpus.md").read_text(encoding="utf-8")
    assert "- 2001-02-03T04:05:06: a chip: 1 listed" in text
    assert "another chip, 2 cores" in text


def test_a_notebook_is_a_plain_script_without_skyline(tmp_path: Path) -> None:
    import json

    from plain_notebook import plain_script

    cells = [
        ("markdown", "# Title"),
        ("code", "%matplotlib inline\nif True:\n    !pip install torch\nx = 3"),
        ("code", "%%bash\nls"),
        ("code", "display(get_ipython())\ny = x + 1"),
    ]
    notebook = tmp_path / "a.ipynb"
    content = {"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}
    notebook.write_text(json.dumps(content), encoding="utf-8")
    names: dict[str, Any] = {}
    exec(plain_script(notebook), names)
    assert names["y"] == 4


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


def changed(tmp_path: Path, before: str, after: str, arguments: tuple[str, ...] = ()) -> int:
    from corpus_batch import numbers_changed

    from skyline.verification.change import Change

    file = tmp_path / "train.py"
    file.write_text(before, encoding="utf-8")
    return numbers_changed(Change(((str(file), after),), arguments, ""), ("--size", "64"))


def test_a_right_change_replaces_one_number_alone(tmp_path: Path) -> None:
    same = ("--size", "64")
    assert changed(tmp_path, "size = 64\nlr = 64\n", "size = 1_024\nlr = 64\n", same) == 1
    assert changed(tmp_path, "size = 64\n", "size = 32\n", ("--size", "32")) == 2
    assert changed(tmp_path, "size = 64\n", "size = 64\n", same) == 0
    assert changed(tmp_path, "size = 64\n", "sizes = 32\n", same) == -1


BATCHES = """
import torch
size = {size}
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.ones(100000, 4))
for x, in torch.utils.data.DataLoader(data, batch_size=size):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def brief_captures(resident: WarmPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures measure the script alone, briefly, in forks of one process."""
    import corpus_batch
    import corpus_measure

    def brief(asked: CaptureRequest, **options: Any) -> Profile:
        return capture(
            replace(asked, settle_s=0.1, trials=False, budget_s=0.0), starter=resident.start, **options
        )

    for module in (corpus_batch, corpus_measure):
        monkeypatch.setattr(module, "capture", brief)


@pytest.mark.capture
@pytest.mark.usefixtures("brief_captures")
@pytest.mark.parametrize(
    ("size", "written", "said"),
    [(16, "16", (True, "right")), (2, "2", (True, "right")), (16, "len('a' * 16)", (False, ""))],
)
def test_the_batch_size_of_a_script_is_held_against_its_source(
    tmp_path: Path, size: int, written: str, said: tuple[bool, str]
) -> None:
    import corpus_measure

    script = tmp_path / "train.py"
    script.write_text(BATCHES.format(size=written), encoding="utf-8")
    subject = corpus_measure.TimedScript(script, (), sys.executable, tmp_path)
    outcome = corpus_measure.profiled(subject, size)
    batch: Any = outcome["batch"]
    assert batch["seen"] == size
    assert (batch["found"], batch["rewritten"]) == said


@pytest.mark.capture
@pytest.mark.usefixtures("brief_captures")
@pytest.mark.parametrize("breaks", [False, True])
def test_a_script_is_profiled_or_its_own_error_is_told(tmp_path: Path, breaks: bool) -> None:
    import corpus_measure

    script = tmp_path / "train.py"
    first = "import no_such_module_here" if breaks else ""
    script.write_text(TRAINING.format(first=first), encoding="utf-8")
    outcome = corpus_measure.measure(
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


def test_several_ranks_are_started_by_torchrun_and_the_error_is_that_of_a_rank() -> None:
    from corpus_measure import own_error, started_as

    assert started_as(1) == ()
    assert started_as(2)[:2] == ("-m", "torch.distributed.run")
    assert "--nproc-per-node=2" in started_as(2)
    ended = "E1127 torch/distributed/elastic/api.py:9] failed\nraise ChildFailedError(\n====\n"
    raised = "[rank0]: Traceback\n[rank0]: ValueError: no data\n"
    assert own_error(raised + ended) == "ValueError: no data"
    assert own_error(f"Traceback\nImportError: no\n{ended}") == "ImportError: no"
    assert own_error("Traceback\nOSError: none\n") == "OSError: none"


@pytest.mark.capture
@pytest.mark.usefixtures("brief_captures")
def test_a_script_of_two_ranks_has_a_profile_and_no_stopwatch(tmp_path: Path) -> None:
    import corpus_measure

    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(first=""), encoding="utf-8")
    outcome = corpus_measure.measure(
        {
            "script": str(script),
            "folder": str(tmp_path),
            "arguments": [],
            "interpreter": sys.executable,
            "stopwatch": False,
            "ranks": 2,
        }
    )
    assert outcome["works"], outcome
    assert "2 ranks" in str(outcome["not_timed"])
