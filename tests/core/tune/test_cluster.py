"""Trials on two worker processes of a Dask cluster: found, lost, left out and stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.capture.request import CaptureRequest, Progress
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.errors import ArgumentsRefused, Cancelled, CaptureImpossible, ScriptFailed, UsageError
from skyline.interval import Interval
from skyline.ledger.ledger import Ledger, VerificationStatus
from skyline.trace.facts import Environment
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes
from skyline.trace.trial import Choices, Trial
from skyline.tune.cluster import ClusterTrials, OnAWorker, WorkerPool, trial_workers
from skyline.tune.paired import PairedTrials
from skyline.tune.space import Candidate
from skyline.tune.worker_trial import (
    Failure,
    Files,
    WorkerTask,
    cancel_here,
    measure_here,
    problem_here,
    thread_variables,
)
from skyline.verification.measure import Effort, Measured
from skyline.verification.verify import request_of
from skyline.version import __version__
from skyline.whatif.question import Choice

SOURCE = """\
import torch
from torch.utils.data import DataLoader, TensorDataset, get_worker_info
class Data(TensorDataset):
    def __getitem__(self, index):
        if get_worker_info() is not None:
            raise RuntimeError("these data have one reader")
        return super().__getitem__(index)
torch.manual_seed(0)
loader = DataLoader(Data(torch.randn(6400, 64)), batch_size=16)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(100_000):
    for (inputs,) in loader:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
"""
QUICK = Effort(rounds=6, minutes=5, turn_s=0.05)
ENDLESS = Effort(rounds=5000, minutes=5, turn_s=0.05)
FUSED = Candidate(frozenset({Choice("fused_optimizer")}), Interval(1.1, 1.0, 1.2))
CRASHING = Candidate(frozenset({Choice("num_workers", "2")}), Interval(1.1, 1.0, 1.2))

needs_workers = [
    pytest.mark.capture,
    pytest.mark.usefixtures("brief_start"),
    pytest.mark.xdist_group("tune cluster"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def brief_module(preloaded: str) -> Iterator[None]:
    """As ``brief_start``, for what all tests here share: the workers start their runs as they were started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", preloaded)
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def client(brief_module: None) -> Iterator[Any]:
    pytest.importorskip("distributed", reason="needs the extra cluster: Dask distributed")
    with trial_workers("local:2") as found:
        yield found


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory, resident: WarmPool, preloaded: str) -> Analysis:
    path = tmp_path_factory.mktemp("project") / "train.py"
    path.write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", preloaded)
        patch.setenv("OMP_NUM_THREADS", "1")
        request = CaptureRequest(path, settle_s=0.1, batch_points=0, trials=False, budget_s=0.0)
        return analyse(capture(request, progress=lambda _: None, starter=resident.start))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def trials(client: Any, analysis: Analysis, said: list[str], tmp_path: Path) -> ClusterTrials:
    # Those that a test before has killed are started again.
    client.wait_for_workers(2, timeout=120)
    request = request_of(analysis.profile)
    pool = WorkerPool(client, Files.of(analysis.profile, request), said.append)
    return ClusterTrials(PairedTrials(analysis, request, ledger=Ledger(tmp_path / "ledger")), pool)


def measured_by(trials: ClusterTrials, effort: Effort, then: Callable[[], None]) -> Any:
    """A trial in a thread, and ``then`` here as soon as its processes train; the outcome or the error."""
    found: list[Any] = []

    def measure() -> None:
        try:
            found.append(trials(FUSED, effort, lambda _: None))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=measure)
    thread.start()
    then()
    thread.join(240)
    assert found, "the trial did not end"
    return found[0]


def children_of(pid: int) -> list[psutil.Process]:
    """Runs of a worker, which are sessions of their own. A process that ends meanwhile hides no other one."""
    found: list[psutil.Process] = []
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return found
    for one in below:
        with suppress(psutil.Error):
            if "skyline/capture/child" in " ".join(one.cmdline()):
                found.append(one)
    return found


def busy_worker(client: Any) -> int:
    """The process of the worker that measures, once its runs are there."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for pid in client.run(os.getpid).values():
            if len(children_of(pid)) > 1:
                return pid
        time.sleep(0.1)
    raise AssertionError("no worker measures")


class TestOnWorkers:
    pytestmark = needs_workers

    def test_both_versions_are_measured_on_one_worker_and_kept(
        self, trials: ClusterTrials, said: list[str], tmp_path: Path
    ) -> None:
        told: list[Progress] = []
        found = trials(FUSED, QUICK, told.append)
        assert 0.2 < found.speedup.value < 5
        assert "tcp://127.0.0.1" in found.worker
        assert any(one.message.startswith("on ") for one in told)
        (entry,) = Ledger(tmp_path / "ledger").entries()
        assert entry.question == "fused_optimizer"
        assert entry.status in {VerificationStatus.MEASURED, VerificationStatus.DISCARDED}
        assert entry.measurement is not None
        assert entry.measurement.rounds == 6
        assert "workers share" in said[0]

    def test_a_change_that_fails_is_a_failure_of_the_change(self, trials: ClusterTrials) -> None:
        with pytest.raises(ScriptFailed, match="these data have one reader") as caught:
            trials(CRASHING, QUICK, lambda _: None)
        assert caught.value.of_change
        assert len(trials.pool) == 2

    def test_a_trial_is_repeated_where_its_worker_is_killed(
        self, trials: ClusterTrials, client: Any, said: list[str]
    ) -> None:
        runs: list[psutil.Process] = []

        def kill() -> None:
            pid = busy_worker(client)
            runs.extend(children_of(pid))
            os.kill(pid, signal.SIGKILL)

        found = measured_by(trials, replace(QUICK, rounds=12), kill)
        assert not isinstance(found, Exception), found
        assert 0.2 < found.speedup.value < 5
        assert "was lost during fused_optimizer: the trial is repeated" in said[-1]
        assert found.worker not in said[-1]
        assert runs
        _, alive = psutil.wait_procs(runs, timeout=30)
        assert not alive, "a killed worker leaves no training behind"

    def test_a_stopped_search_leaves_no_run_behind(self, trials: ClusterTrials, client: Any) -> None:
        pids: list[int] = []

        def stop() -> None:
            pids.append(busy_worker(client))
            trials.cancel.set()

        assert isinstance(measured_by(trials, ENDLESS, stop), Cancelled)
        deadline = time.monotonic() + 60
        while children_of(pids[0]) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not children_of(pids[0])

    def test_workers_without_the_files_are_named(
        self, client: Any, analysis: Analysis, said: list[str]
    ) -> None:
        client.wait_for_workers(2, timeout=120)
        files = Files.of(analysis.profile, request_of(analysis.profile))
        with pytest.raises(UsageError, match="No worker of the cluster can run") as caught:
            WorkerPool(client, replace(files, texts=(("/nowhere/train.py", ""),)), said.append)
        assert "it has no /nowhere/train.py" in caught.value.hint
        assert len(said) == 2


def test_a_worker_is_asked_for_version_interpreter_and_files(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("pass\n")
    files = Files(__version__, sys.executable, ())
    assert problem_here(files)[1] == ""
    assert "not 0.0.0" in problem_here(replace(files, version="0.0.0"))[1]
    assert "it has no /none/python" in problem_here(replace(files, interpreter="/none/python"))[1]
    assert "differs from" in problem_here(replace(files, texts=((str(script), "other"),)))[1]


def test_a_trial_that_is_cancelled_before_it_begins_runs_nothing(analysis: Analysis) -> None:
    request = request_of(analysis.profile)
    task = WorkerTask("early", Files.of(analysis.profile, request), request, request, QUICK, "", {})
    cancel_here("early")
    found = measure_here(task)
    assert isinstance(found, Failure)
    assert isinstance(found.error(), Cancelled)


def test_threads_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask sets one thread for what runs in its workers."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    found = thread_variables()
    assert found["OMP_NUM_THREADS"] == "3"
    assert found["MKL_NUM_THREADS"] is None


def test_every_error_arrives_as_it_was() -> None:
    import pickle

    error = ArgumentsRefused("it refused them", usage="usage: train.py", hint="look", file="train.py")
    error.of_change = True
    found = pickle.loads(pickle.dumps(Failure.of(error))).error()
    assert isinstance(found, ArgumentsRefused)
    assert (str(found), found.of_change, found.usage) == (str(error), True, "usage: train.py")


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for place in ("local:2", "tcp://127.0.0.1:9"):
        with pytest.raises(UsageError, match="not installed") as caught, trial_workers(place):
            pass
        assert "skyline-profiler[cluster]" in caught.value.hint


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs the extra cluster: Dask distributed")
    monkeypatch.setattr("skyline.job.workers._ANSWERS_WITHIN_S", 0.5)
    with pytest.raises(UsageError, match="no Dask scheduler answers"), trial_workers("tcp://127.0.0.1:9"):
        pass


class Gone:
    """A client whose workers or scheduler are gone."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def nthreads(self) -> object:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, work: object, files: object, *, workers: list[str], on_error: str) -> dict[str, object]:
        return dict.fromkeys(workers, ("a machine", ""))


class Told(WorkerPool):
    """Two workers, and what each trial on them comes to."""

    def __init__(self, *outcomes: Measured | Failure | None) -> None:
        self.said: list[str] = []
        self.outcomes = list(outcomes)
        self.measured_on: list[str] = []
        super().__init__(Gone({"tcp://a": 1, "tcp://b": 1}), Files("1", "", ()), self.said.append)

    def measured(self, worker, task, cancel):
        self.measured_on.append(worker.address)
        return self.outcomes.pop(0)


def outcome_on(pool: Told, profile: Profile) -> Measured:
    analysis = analyse(profile)
    request = request_of(profile)
    trials = ClusterTrials(PairedTrials(analysis, request, keep=False), pool)
    return OnAWorker(trials)(request, request, QUICK, words="fused_optimizer", progress=lambda _: None)


def measured_with(environment: Environment) -> Measured:
    times = BareTimes((1.0,), (0.0,), (0.0,), (0.0,))
    run: Any = SimpleNamespace(facts=SimpleNamespace(environment=environment))
    return Measured(Trial(Choices(), times), run, run, 1.0, None)


def failure(message: str, *, of_change: bool = False) -> Failure:
    error = ScriptFailed(message)
    error.of_change = of_change
    return Failure.of(error)


def test_a_trial_that_ends_its_workers_is_dropped(profile: Profile) -> None:
    pool = Told(None, None)
    with pytest.raises(CaptureImpossible, match=r"2 workers were lost .* memory ran out") as caught:
        outcome_on(pool, profile)
    assert caught.value.of_change
    assert sum("the trial is repeated" in one for one in pool.said) == 1


def test_a_worker_that_cannot_run_the_unchanged_script_is_left_out(profile: Profile) -> None:
    right = measured_with(profile.environment)
    pool = Told(failure("no data here"), right)
    assert outcome_on(pool, profile) is right
    assert len(set(pool.measured_on)) == 2
    assert "is left out: no data here" in pool.said[-1]
    with pytest.raises(ScriptFailed, match="no data there"):
        outcome_on(Told(failure("no data here"), failure("no data there")), profile)


def test_a_failure_of_the_change_is_not_tried_elsewhere(profile: Profile) -> None:
    pool = Told(failure("it crashed", of_change=True))
    with pytest.raises(ScriptFailed, match="it crashed"):
        outcome_on(pool, profile)
    assert len(pool) == 2


def test_a_worker_unlike_the_machine_of_the_profile_is_left_out(profile: Profile) -> None:
    other = measured_with(replace(profile.environment, cpu_count=4096))
    right = measured_with(profile.environment)
    pool = Told(other, right)
    assert outcome_on(pool, profile) is right
    assert "4096 cores" in pool.said[-1]
    with pytest.raises(CaptureImpossible, match=r"No worker matches .* 4096 cores"):
        outcome_on(Told(other, other), profile)


@pytest.mark.parametrize(
    ("later", "told"),
    [({}, "No worker of the cluster is left"), (OSError("closed"), "scheduler no longer answers")],
)
def test_the_search_ends_where_nobody_is_left(
    monkeypatch: pytest.MonkeyPatch, later: object, told: str
) -> None:
    for name in ("_BACK_WITHIN_S", "_ALIVE_EVERY_S"):
        monkeypatch.setattr(f"skyline.tune.cluster.{name}", 0.01)
    pool = WorkerPool(Gone({"tcp://a": 1}, later), Files("1", "", ()), lambda said: None)
    with pytest.raises(CaptureImpossible, match=told) as caught:
        pool.take(threading.Event())
    assert "--resume" in caught.value.hint


def test_each_worker_has_one_trial_at_a_time() -> None:
    pool = WorkerPool(Gone({"tcp://a": 1, "tcp://b": 1}), Files("1", "", ()), lambda said: None)
    first, second = pool.take(threading.Event()), pool.take(threading.Event())
    assert {first.address, second.address} == {"tcp://a", "tcp://b"}
    cancel = threading.Event()
    threading.Timer(0.2, lambda: pool.give_back(second)).start()
    assert pool.take(cancel) == second
    cancel.set()
    with pytest.raises(Cancelled):
        pool.take(cancel)
