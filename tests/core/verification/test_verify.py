"""Verifications of a real script, from the prediction to the ledger."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.capture.events import StepRow
from skyline.capture.held_run import HeldRun
from skyline.capture.process import Starter
from skyline.capture.request import CaptureRequest, Progress
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.session import capture
from skyline.capture.turns import Turn
from skyline.capture.warm_pool import WarmPool
from skyline.errors import Cancelled, ScriptFailed, UsageError
from skyline.ledger.ledger import Ledger, VerificationStatus
from skyline.verification.compare import compare
from skyline.verification.measure import Effort
from skyline.verification.verify import request_of, verify
from skyline.whatif.question import Choice, Question

pytestmark = [
    pytest.mark.capture,
    pytest.mark.usefixtures("brief_start"),
    pytest.mark.xdist_group("verification"),
]

SOURCE = """\
import sys
import torch

batch_size = 16
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn({samples}, 64))
loader = torch.utils.data.DataLoader(data, batch_size=batch_size)
assert batch_size < 1000, "too large"
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range({epochs}):
    for (inputs,) in loader:
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
QUICK = Effort(rounds=6, minutes=2, turn_s=0.05)


@pytest.fixture(scope="module")
def starter(resident: WarmPool) -> Starter:
    return resident.start


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory, starter: Starter, preloaded: str) -> Analysis:
    path = tmp_path_factory.mktemp("project") / "train.py"
    path.write_text(SOURCE.format(samples=6400, epochs=100_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", preloaded)
        patch.setenv("OMP_NUM_THREADS", "1")
        options: dict[str, object] = {"settle_s": 0.1, "batch_points": 1, "trials": False}
        request = CaptureRequest(path, working_directory=path.parent, **options)  # type: ignore[arg-type]
        return analyse(capture(request, progress=lambda progress: None, starter=starter))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite3")


@pytest.fixture
def nothing_left_running() -> Iterator[None]:
    """Of the processes that a test starts only those with PyTorch imported may wait for the next run.

    Processes left by other tests of this worker, such as ``multiprocessing``'s resource tracker, were there before.
    """
    before = set(psutil.Process().children(recursive=True))
    yield
    # On a busy machine a process takes its time to be gone; one that stays is there for good.
    deadline = time.monotonic() + 60
    while left := [
        p for p in set(psutil.Process().children(recursive=True)) - before if "--warm" not in _words(p)
    ]:
        assert time.monotonic() < deadline, [_words(one) for one in left]
        time.sleep(0.05)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ["--warm"]


def test_a_batch_size_is_predicted_written_down_measured_and_closed(
    analysis: Analysis, ledger: Ledger, starter: Starter, nothing_left_running: None
) -> None:
    path = Path(analysis.profile.script)
    before = path.read_bytes()
    stages: list[Progress] = []
    written: list[VerificationStatus] = []

    def progress(said: Progress) -> None:
        stages.append(said)
        written.extend(entry.status for entry in ledger.entries())

    found = verify(
        analysis,
        Question(batch_size=48),
        effort=QUICK,
        ledger=ledger,
        progress=progress,
        starter=starter,
    )

    assert path.read_bytes() == before
    # The prediction was there before the first process, and stayed as it was.
    launch = [said.stage for said in stages].index("launch")
    assert set(written) == {VerificationStatus.OPEN}
    assert len(written) == len(stages) - launch
    fractions = [said.fraction for said in stages]
    assert fractions == sorted(fractions)
    (entry,) = ledger.entries()
    assert entry == found.entry
    assert (entry.whatif, entry.question) == ("batch_size", "batch_size=48")
    assert entry.status in {VerificationStatus.MEASURED, VerificationStatus.DISCARDED}
    assert bool(entry.reason) == (entry.status is VerificationStatus.DISCARDED)
    assert entry.predicted.iteration_ms == found.estimate.iteration_ms.value
    measured = entry.measurement
    assert measured is not None
    assert measured.rounds == 6
    assert measured.ratio_low <= measured.ratio <= measured.ratio_high
    assert entry.error == pytest.approx(entry.predicted.ratio / measured.ratio - 1)
    # Three times the samples, and the run with the change had them.
    assert found.samples == pytest.approx(3)
    assert 48 in found.measured.changed.facts.batch_sizes_seen
    assert 48 not in found.measured.base.facts.batch_sizes_seen
    assert measured.peak_bytes is not None
    assert measured.baseline_peak_bytes is not None
    assert measured.peak_bytes > measured.baseline_peak_bytes


def test_throughput_counts_the_samples_of_all_fused_runs(
    analysis: Analysis, ledger: Ledger, starter: Starter
) -> None:
    found = verify(
        analysis,
        Question(choices=(Choice("fuse_jobs", "2"),)),
        effort=QUICK,
        ledger=ledger,
        progress=lambda _: None,
        starter=starter,
    )
    assert found.samples == pytest.approx(2)
    assert "fused_jobs" in found.diff
    assert found.measured.changed.facts.batch_sizes_seen == found.measured.base.facts.batch_sizes_seen


def test_what_does_not_apply_or_fails_is_told_and_closed(
    analysis: Analysis, ledger: Ledger, starter: Starter, nothing_left_running: None
) -> None:
    def ask(size: int, **options: object) -> None:
        verify(
            analysis,
            Question(batch_size=size),
            effort=QUICK,
            ledger=ledger,
            starter=starter,
            progress=options.pop("progress", lambda said: None),  # type: ignore[arg-type]
            **options,  # type: ignore[arg-type]
        )

    with pytest.raises(UsageError, match="already"):
        ask(16)
    assert ledger.entries() == ()

    with pytest.raises(ScriptFailed, match="With the change") as raised:
        ask(2000)
    assert "AssertionError: too large" in raised.value.traceback
    (crashed,) = ledger.entries()
    assert crashed.status is VerificationStatus.ABORTED
    assert "too large" in crashed.reason
    assert crashed.measurement is None

    cancel = threading.Event()
    with pytest.raises(Cancelled):
        ask(32, cancel=cancel, progress=lambda said: cancel.set() if said.stage == "measure" else None)
    entries = [entry for entry in ledger.entries() if entry.id != crashed.id]
    assert [(entry.status, entry.reason) for entry in entries] == [
        (VerificationStatus.ABORTED, "interrupted")
    ]


def test_a_script_that_ends_early_is_started_again(tmp_path: Path, starter: Starter) -> None:
    path, slower = tmp_path / "train.py", tmp_path / "slower.py"
    # Far fewer iterations than six rounds need.
    path.write_text(SOURCE.format(samples=384, epochs=1))
    slower.write_text(
        path.read_text().replace("loss.backward()", "loss.backward(); __import__('time').sleep(0.01)")
    )
    request = CaptureRequest(path, working_directory=tmp_path)

    found = compare(
        request, replace(request, script=slower), effort=QUICK, progress=lambda said: None, starter=starter
    )

    assert len(found.measured.trial.ratios) == 6
    assert found.measured.restarts >= 3
    assert found.verdict.ratio.low > 2
    assert any("restarted" in note for note in found.measured.notes)


def test_a_held_run_stands_still_between_its_turns_with_its_workers(
    tmp_path: Path, starter: Starter, nothing_left_running: None
) -> None:
    path = tmp_path / "train.py"
    source = SOURCE.format(samples=6400, epochs=100_000)
    path.write_text(source.replace("batch_size=batch_size", "batch_size=batch_size, num_workers=2"))
    request = CaptureRequest(path, warmup=2, working_directory=tmp_path)
    with HeldRun(ScriptLauncher(request, starter=starter)) as run:
        run.launch()
        run.warm_up()
        assert run.cycle == 2
        assert len(rows_of(run.turn())) % 2 == 0
        members = [
            process
            for process in psutil.process_iter()
            if _group(process) is not None and _group(process) == _group_of_run(run)
        ]
        assert len(members) >= 3
        assert all(process.status() == psutil.STATUS_STOPPED for process in members)
        assert len(rows_of(run.turn())) >= 3


def rows_of(turn: Turn | None) -> tuple[StepRow, ...]:
    assert turn is not None
    return turn.rows


def _group_of_run(run: HeldRun) -> int | None:
    assert run._child is not None
    return run._child.pid


def _group(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except OSError:
        return None


def test_how_a_profile_was_made(analysis: Analysis) -> None:
    request = request_of(analysis.profile)
    assert str(request.script) == analysis.profile.script
    assert request.interpreter == analysis.profile.interpreter
