"""Trials on the workers of a Dask cluster: finds free workers, and handles lost and unusable ones."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, Progress, ProgressCallback
from skyline.errors import Cancelled, CaptureImpossible, SkylineError, UsageError
from skyline.job.workers import LOCAL, connected, no_distributed
from skyline.lazy_dataclass import dataclass
from skyline.ledger.ledger import Conditions
from skyline.trace.profile import Profile
from skyline.tune.paired import PairedTrials
from skyline.tune.search import Outcome
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

_LOOK_EVERY_S = 0.2
_ALIVE_EVERY_S = 1.0
_BACK_WITHIN_S = 20.0
"""The time for a supervisor (Dask's nanny) to restart a lost worker if no other one is left."""
_MOST_LOSSES = 2
"""The number of lost workers after which a trial is dropped, since the trial itself most likely ends them."""
_RESUME = "The finished trials are kept. Start workers, and continue with --resume."


@contextmanager
def trial_workers(place: str) -> Generator[Any, None, None]:
    """A client of the workers behind a scheduler's address, or of ``local:N`` processes that are started here.

    Raises:
        UsageError: Dask distributed is not installed, or no scheduler with a worker answers.
    """
    if (local := LOCAL.fullmatch(place)) is None:
        with connected(place) as client:
            yield client
        return
    try:
        from distributed import LocalCluster
    except ImportError as error:
        raise no_distributed() from error
    nothing: Any = None
    cluster: Any = LocalCluster(
        n_workers=int(local[1]),
        threads_per_worker=1,
        processes=True,
        dashboard_address=nothing,
        host="127.0.0.1",
        silence_logs=50,
    )
    with cluster, connected(cluster.scheduler_address) as client:
        yield client


@dataclass(frozen=True, slots=True)
class TrialWorker:
    """A worker: its address at the scheduler, and the name of its machine."""

    address: str
    host: str

    def __str__(self) -> str:
        return f"{self.host} ({self.address})"


class WorkerPool:
    """The workers that may run trials, one trial at a time on each.

    ``notes`` are messages for the person. New workers are added as they appear.
    """

    def __init__(self, client: Any, files: Files, say: Callable[[str], None]) -> None:
        self._client, self._files, self._say = client, files, say
        self._known: dict[str, TrialWorker] = {}
        self._busy: set[str] = set()
        self._unfit: set[str] = set()
        self._lock = threading.Lock()
        self.notes: list[str] = []
        self._take_in()
        if not self._known:
            raise UsageError(
                "No worker of the cluster can run the trials",
                hint="\n".join(self.notes)
                + "\nSkyline copies no files: the project, its data and the interpreter "
                "must lie under the same paths on every worker, such as in a shared folder.",
            )
        hosts = [one.host for one in self._known.values()]
        for host in sorted({one for one in hosts if hosts.count(one) > 1}):
            self.note(
                f"{hosts.count(host)} workers share {host}: trials at the same time compete for its cores and its GPU, "
                "and such a trial counts as uncertain."
            )

    def __len__(self) -> int:
        return len(self._known)

    def note(self, said: str) -> None:
        """Reports a message, now and with the result."""
        self.notes.append(said)
        self._say(said)

    def take(self, cancel: threading.Event) -> TrialWorker:
        """A free worker, as soon as there is one. Raises CaptureImpossible if none is left, and Cancelled."""
        none_since_s = None
        while not cancel.is_set():
            with self._lock:
                self._take_in()
                free = [one for address, one in self._known.items() if address not in self._busy]
                if free:
                    self._busy.add(free[0].address)
                    return free[0]
                none_since_s = None if self._known else none_since_s or time.monotonic()
            if none_since_s is not None and time.monotonic() - none_since_s > _BACK_WITHIN_S:
                raise CaptureImpossible("No worker of the cluster is left", hint=_RESUME)
            cancel.wait(_ALIVE_EVERY_S)
        raise Cancelled("The search was cancelled")

    def give_back(self, worker: TrialWorker) -> None:
        """Marks the worker as free again, if it still lives."""
        with self._lock:
            self._busy.discard(worker.address)

    def leave_out(self, worker: TrialWorker, reason: str) -> bool:
        """Excludes the worker; True if others are left."""
        with self._lock:
            self._known.pop(worker.address, None)
            self._unfit.add(worker.address)
            self.note(f"{worker} is left out: {reason}")
            return bool(self._known)

    def lives(self, worker: TrialWorker) -> bool:
        """True if the scheduler still knows the worker."""
        return worker.address in self._addresses()

    def measured(
        self, worker: TrialWorker, task: WorkerTask, cancel: threading.Event
    ) -> Measured | Failure | None:
        """The outcome of a trial on this worker; None if the worker is lost. Raises Cancelled."""
        future = self._client.submit(
            measure_here, task, key=f"skyline-{task.key}", workers=[worker.address], pure=False, retries=0
        )
        looked_s = time.monotonic()
        try:
            while not future.done():
                if cancel.wait(_LOOK_EVERY_S):
                    self._client.run(cancel_here, task.key, workers=[worker.address], on_error="ignore")
                    raise Cancelled("The search was cancelled")
                if time.monotonic() - looked_s > _ALIVE_EVERY_S:
                    looked_s = time.monotonic()
                    if not self.lives(worker):
                        return None
            if future.status == "finished":
                return future.result()
            if self.lives(worker) and future.status == "error":
                raise CaptureImpossible(
                    f"The worker {worker} failed: {future.exception()}",
                    hint="Install skyline-profiler there, in the version that is installed here.",
                )
            return None
        finally:
            future.cancel()

    def _take_in(self) -> None:
        """Removes workers that are gone, and checks new ones."""
        there = self._addresses()
        self._known = {address: one for address, one in self._known.items() if address in there}
        new = [one for one in there if one not in self._known and one not in self._unfit]
        if not new:
            return
        answers: dict[str, Any] = self._client.run(problem_here, self._files, workers=new, on_error="return")
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                if isinstance(answer, OSError):  # lost in the meantime
                    continue
                host, problem = address, f"it cannot run Skyline ({type(answer).__name__}: {answer})"
            else:
                host, problem = answer
            found = TrialWorker(address, host)
            if problem:
                self._unfit.add(address)
                self.note(f"{found} is left out: {problem}")
            else:
                self._known[address] = found

    def _addresses(self) -> set[str]:
        try:
            return set(self._client.nthreads())
        except (OSError, TimeoutError, RuntimeError) as error:
            raise CaptureImpossible(f"The Dask scheduler no longer answers: {error}", hint=_RESUME) from error


@dataclass(frozen=True, slots=True)
class ClusterTrials:
    """Measures candidates on workers: both versions of a trial take turns on one machine.

    A trial whose worker is lost, or cannot even run the unchanged script, is repeated on another one.
    """

    paired: PairedTrials
    pool: WorkerPool
    cancel: threading.Event = field(default_factory=threading.Event)

    def __call__(self, candidate: Candidate, effort: Effort, progress: ProgressCallback) -> Outcome:
        """The outcome on any free worker; raises the exceptions of ``verify``."""
        place = OnAWorker(self)
        found = replace(self.paired, measuring=place, cancel=self.cancel)(candidate, effort, progress)
        return replace(found, worker=place.worker)


class OnAWorker:
    """Finds a worker for one trial; ``worker`` is the one that measured it."""

    def __init__(self, trials: ClusterTrials) -> None:
        self._pool, self._profile, self._cancel = trials.pool, trials.paired.analysis.profile, trials.cancel
        self.worker = ""

    def __call__(
        self,
        base: CaptureRequest,
        changed: CaptureRequest,
        effort: Effort,
        *,
        words: str = "",
        progress: ProgressCallback,
        cancel: threading.Event | None = None,
        starter: Starter = start_fresh,
    ) -> Measured:
        """The worker's measurement; raises like ``measure``, and CaptureImpossible if no worker is left."""
        files, variables, losses = Files.of(self._profile, base), thread_variables(), 0
        while True:
            worker = self._pool.take(self._cancel)
            try:
                progress(Progress("measure", f"on {worker.host}", 0.5))
                task = WorkerTask(secrets.token_hex(8), files, base, changed, effort, words, variables)
                found = self._pool.measured(worker, task, self._cancel)
            finally:
                self._pool.give_back(worker)
            if isinstance(found, Measured):
                other = _other_machine(self._profile, found)
                if not other:
                    self.worker = str(worker)
                    return found
                if not self._pool.leave_out(worker, other):
                    raise CaptureImpossible(
                        f"No worker matches the machine of the profile: {worker}: {other}",
                        hint="Profile the script on a machine like the workers, and start the search there.",
                    )
            elif found is None:
                losses += 1
                if losses >= _MOST_LOSSES:
                    raise _lost(losses)
                self._pool.note(f"{worker} was lost during {words}: the trial is repeated on another worker.")
            else:
                error = found.error()
                if error.of_change or not self._pool.leave_out(worker, error.message):
                    raise error


def _lost(losses: int) -> SkylineError:
    error = CaptureImpossible(
        f"{losses} workers were lost during this trial, most likely because memory ran out"
    )
    error.of_change = True
    return error


def _other_machine(profile: Profile, measured: Measured) -> str:
    """The difference between the profile's and a worker's machine, which makes ratios incomparable, if any."""
    own, there = Conditions.of(profile), Conditions.at(measured.base.facts.environment)
    if own.same_as(there):
        return ""
    return (
        f"it has {there.device}, {there.cores} cores, {there.threads} threads and PyTorch {there.torch}; the profile's "
        f"machine has {own.device}, {own.cores} cores, {own.threads} threads and PyTorch {own.torch}"
    )
