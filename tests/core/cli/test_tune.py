"""The command line of ``tune``, with trials of known outcome, and one search that measures."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.errors import ScriptFailed
from skyline.interval import Interval
from skyline.tune.paired import PairedTrials
from skyline.tune.search import Outcome
from skyline.tune.space import Candidate
from skyline.verification.measure import Effort
from skyline.whatif.registry import whatif_named

Run = Callable[..., object]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The speed-up of each trial by the name of its what-if; others have none. Fills with the trials."""
    known: dict[str, float] = {"fused_optimizer": 1.3, "num_workers": 1.0}

    def trial(self: PairedTrials, candidate: Candidate, effort, progress) -> Outcome:
        value = 1.0
        for part in candidate.parts:
            value *= known.get(part.name, 0.9)
        return Outcome(Interval(value, 0.99 * value, 1.01 * value), 1.0)

    monkeypatch.setattr(PairedTrials, "__call__", trial)
    return known


def tuned(skyline: Run, *options: str) -> dict[str, object]:
    ran = skyline("tune", "train.py", "--json", "-", "--quiet", *options)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_the_best_is_offered_with_its_command_and_no_file_changes(
    skyline: Run, saved: Path, script: Path, measured: dict[str, float]
) -> None:
    before = script.read_bytes()
    report = tuned(skyline)
    assert report["outcome"] == "faster"
    assert report["best"]["changes"] == ["fused_optimizer"]
    assert report["command"] == "skyline apply train.py fused_optimizer"
    assert report["semantics"] == "exact"
    assert "+optimizer" in report["diff"]
    assert script.read_bytes() == before
    ran = skyline("tune", "train.py")
    assert "1.30x (1.29–1.31x) samples per second with fused_optimizer" in ran.out
    assert "make it: skyline apply train.py fused_optimizer" in ran.out
    assert "trial 1:" in ran.err


def test_one_edit_is_made_and_taken_back_byte_for_byte(
    skyline: Run, saved: Path, script: Path, measured: dict[str, float]
) -> None:
    before = script.read_bytes()
    ran = skyline("tune", "train.py", "--apply")
    assert ran.code == 0, ran.err
    assert "fused" in script.read_text()
    assert "undo: skyline tune train.py --undo" in ran.out
    applied = script.read_bytes()
    script.write_bytes(applied + b"# mine\r\n")
    ran = skyline("tune", "train.py", "--undo")
    assert ran.code == 2
    assert "it is not restored" in ran.err
    assert script.read_bytes() == applied + b"# mine\r\n"
    script.write_bytes(applied)
    assert skyline("tune", "train.py", "--undo").code == 0
    assert script.read_bytes() == before
    ran = skyline("tune", "train.py", "--undo")
    assert ran.code == 2
    assert "no change of skyline tune --apply" in ran.err


def test_nothing_that_gains_is_said_and_not_applied(
    skyline: Run, saved: Path, script: Path, measured: dict[str, float]
) -> None:
    before = script.read_bytes()
    measured["fused_optimizer"] = 1.01
    ran = skyline("tune", "train.py", "--apply")
    assert ran.code == 0
    assert "No change here gains more than 2 %." in " ".join(ran.out.split())
    assert "nothing was changed" in ran.err
    assert script.read_bytes() == before


def test_a_budget_too_short_for_a_trial_says_what_it_could_do(
    skyline: Run, saved: Path, measured: dict[str, float]
) -> None:
    ran = skyline("tune", "train.py", "--budget", "1s")
    told = " ".join(ran.out.split())
    assert ran.code == 0
    assert "Nothing was measured" in told
    assert "A budget of" in told
    assert "The simulation alone suggests" in told
    assert "skyline verify train.py" in told


def test_batch_sizes_are_tried_only_where_that_is_allowed(
    skyline: Run, saved: Path, measured: dict[str, float]
) -> None:
    measured["batch_size"] = 2.0
    assert not any("batch_size" in " ".join(one["changes"]) for one in tuned(skyline)["trials"])
    report = tuned(skyline, "--allow", "convergence")
    assert report["semantics"] == "convergence"
    assert any(change.startswith("batch_size=") for change in report["best"]["changes"])


def test_a_failed_trial_is_told_with_its_reason(
    skyline: Run, saved: Path, measured: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = PairedTrials.__call__

    def trial(self, candidate, effort, progress):
        if candidate.words == "fused_optimizer":
            failed = ScriptFailed("With the change, the script failed: no")
            failed.of_change = True
            raise failed
        return fine(self, candidate, effort, progress)

    monkeypatch.setattr(PairedTrials, "__call__", trial)
    ran = skyline("tune", "train.py")
    assert ran.code == 0
    assert "fused_optimizer: With the change, the script failed: no" in " ".join(ran.out.split())


def test_an_interrupted_search_is_resumed(
    skyline: Run, saved: Path, measured: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    fine, trials = PairedTrials.__call__, []

    def trial(self, candidate, effort, progress):
        if len(trials) == 1:
            raise KeyboardInterrupt
        trials.append(candidate.words)
        return fine(self, candidate, effort, progress)

    monkeypatch.setattr(PairedTrials, "__call__", trial)
    ran = skyline("tune", "train.py")
    assert ran.code == 130
    assert "not verified (interrupted)" in " ".join(ran.out.split()) or "No change here" in ran.out
    monkeypatch.setattr(PairedTrials, "__call__", fine)
    report = tuned(skyline, "--resume")
    assert " ".join(report["trials"][0]["changes"]) == trials[0]
    assert report["outcome"] == "faster"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--budget", "5"], "has no unit"),
        (["--budget", "0s"], "must be more than 0"),
        (["--allow", "exact"], "invalid choice"),
        (["--gpu", "h100"], "and this command measures"),
        (["--undo"], "There is no saved profile"),
        (["--workers", "local:0"], "or local:N, for example local:2"),
        (["--workers", "local:many"], "or local:N, for example local:2"),
    ],
)
def test_what_cannot_be_tuned_is_said_before_anything_runs(
    skyline: Run, script: Path, arguments: list[str], said: str
) -> None:
    ran = skyline("tune", "train.py", *arguments)
    assert ran.code == 2
    assert said in ran.err


def test_workers_that_cannot_be_had_are_said_before_the_profile(
    skyline: Run, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyline.job.workers._ANSWERS_WITHIN_S", 0.5)
    pytest.importorskip("distributed", reason="needs the extra cluster: Dask distributed")
    ran = skyline("tune", "train.py", "--workers", "tcp://127.0.0.1:9")
    assert ran.code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in ran.err
    assert "launch" not in ran.err
    monkeypatch.setitem(sys.modules, "distributed", None)
    ran = skyline("tune", "train.py", "--workers", "localhost:8786")
    assert ran.code == 2
    assert "skyline-profiler[cluster]" in ran.err


SCRIPT = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
class Data(Dataset):
    def __len__(self):
        return 1_000_000
    def __getitem__(self, index):
        if get_worker_info() is not None and index > 300:
            raise RuntimeError("these data have one reader")
        time.sleep(0.0005)
        return torch.ones(64)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
for inputs in DataLoader(Data(), batch_size=16):
    optimizer.zero_grad()
    model(inputs).sum().backward()
    optimizer.step()
"""


@pytest.mark.capture
@pytest.mark.timeout(600)
def test_a_real_search_drops_a_change_that_crashes_and_goes_on(
    skyline: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr("skyline.tune.search._TURN_S", 0.05)
    monkeypatch.setattr("skyline.tune.search._FINAL", Effort(turn_s=0.05))
    few = {name: whatif_named(name) for name in ("fused_optimizer", "num_workers")}
    monkeypatch.setattr("skyline.analysis.best.whatifs", lambda: few)
    monkeypatch.setattr("skyline.analysis.best._MOST_VALUES", 0)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    # Long enough for a busy machine; the few candidates end the search.
    report = tuned(skyline, "--budget", "1h")
    assert path.read_text() == SCRIPT
    failed = [one for one in report["trials"] if one["dropped"]]
    assert failed
    assert all(any("num_workers" in change for change in one["changes"]) for one in failed)
    assert "these data have one reader" in failed[0]["reason"]
    assert [one for one in report["trials"] if one["speedup"] is not None]
    entries = json.loads(skyline("ledger", "--json", "-").out)["entries"]
    assert len(entries) >= len(report["trials"])
