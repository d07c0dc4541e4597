"""The search: chooses the next trial and the leading one, and decides when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from statistics import median
from typing import Any, Protocol

from skyline.capture.request import Progress, ProgressCallback
from skyline.errors import Cancelled, RewriteRefused, SkylineError, UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.tune.belief import LEAST_NOISE, Evidence, believed
from skyline.tune.space import Candidate, Parts, Space
from skyline.tune.trials import WORTH, TuneTrial
from skyline.units import format_ratio_range
from skyline.verification.measure import Effort

_WORTH_A_TRIAL = 0.003
"""The search ends once no candidate is expected to add 0.3 % to the best."""
_AS_FAST = 0.005
"""Combinations whose speed-ups differ by less are equally fast; the one with fewer changes leads."""
_ROUNDS, _TURN_S = 6, 0.35
_FINAL = Effort()
_MOST_LANES = 256
"""The largest number of threads that wait for workers; they are started as needed."""
_FINAL_COST = 2.0
"""The duration of the verification relative to a trial: eight rounds of 0.7 s instead of six of 0.35 s."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A paired trial: samples per second relative to the unchanged script, and the null of the same rounds.

    ``reason`` says why the figures are uncertain; empty if they are valid. ``worker`` is the worker that measured,
    empty if this process did.
    """

    speedup: Interval
    null: float
    peak_bytes: int | None = None
    reason: str = ""
    worker: str = ""


class Measurer(Protocol):
    """Measures a candidate in turns with the unchanged script."""

    def __call__(self, candidate: Candidate, effort: Effort, progress: ProgressCallback) -> Outcome:
        """The outcome; raises the exceptions of ``verify``."""
        ...


@dataclass(frozen=True, slots=True)
class Lanes:
    """Trials that run at the same time, each on its own worker.

    ``count`` is the present number of workers. ``stop`` ends all trials, which then raise Cancelled.
    """

    count: Callable[[], int]
    stop: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a search: total seconds, a first guess of the seconds per trial, and bytes of peak memory."""

    total_s: float
    trial_s: float
    memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a search.

    ``best`` is the leading trial, None if nothing was measured. ``verified`` is its second, longer trial.
    After a single trial there is no choice to confirm, and ``verified`` is that trial. ``simulated`` is the
    candidate that the simulation alone would choose. ``ended`` says why the search ended.
    """

    trials: tuple[TuneTrial, ...]
    best: TuneTrial | None
    verified: TuneTrial | None
    simulated: Candidate | None
    ended: str
    spent_s: float
    trial_s: float
    interrupted: bool = False

    @property
    def worth(self) -> bool:
        """True if the best trial was verified, certainly gains, and gains enough to be offered."""
        found = self.verified
        if found is None or found.speedup is None or found.dropped or found.reason:
            return False
        return found.speedup.value >= WORTH and found.speedup.low > 1


def tune(
    space: Space,
    measurer: Measurer,
    budget: Budget,
    *,
    earlier: Sequence[TuneTrial] = (),
    on_trial: Callable[[TuneTrial], None] = lambda trial: None,
    progress: ProgressCallback,
    clock: Callable[[], float] = time.monotonic,
    lanes: Lanes | None = None,
) -> Tuned:
    """Measures candidates until the budget is spent or none is worth a trial, then verifies the best.

    A candidate that fails is dropped with its reason, and so are all that contain it. An interruption ends
    the search and keeps its trials. An error of the unchanged script is raised. ``lanes`` run several trials
    at a time; None: one after another, in this thread.
    """
    run = _Run(space, measurer, budget, list(earlier), on_trial, progress, clock)
    try:
        ended = run.search(lanes)
        verified = run.verify()
    except (KeyboardInterrupt, Cancelled):
        return run.result("interrupted", None, interrupted=True)
    return run.result(ended, verified)


class _InTurn(Executor):
    """Runs each trial at once in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Runs the function; an exception of the trial is raised here."""
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@dataclass(frozen=True, slots=True)
class _Asked:
    """A trial to run. ``stage`` names it, ``best`` is the best so far in words."""

    candidate: Candidate
    effort: Effort
    stage: str
    best: str


class _Run:
    """One run of the search."""

    def __init__(
        self,
        space: Space,
        measurer: Measurer,
        budget: Budget,
        trials: list[TuneTrial],
        on_trial: Callable[[TuneTrial], None],
        progress: ProgressCallback,
        clock: Callable[[], float],
    ) -> None:
        self._space, self._measurer, self._budget = space, measurer, budget
        self._trials, self._on_trial, self._progress, self._clock = trials, on_trial, progress, clock
        self._began_s = clock()
        self._singles = space.singles
        for one in trials:
            # Trials of an earlier search may be of combinations that this search has not reached yet.
            space.around(one.parts)

    @property
    def _left_s(self) -> float:
        return self._budget.total_s - (self._clock() - self._began_s)

    @property
    def _trial_s(self) -> float:
        took_s = [one.took_s for one in self._trials if not one.dropped and one.took_s]
        return median(took_s) if took_s else self._budget.trial_s

    def search(self, lanes: Lanes | None) -> str:
        """Runs trials; returns the reason for the end, in words."""
        with _InTurn() if lanes is None else ThreadPoolExecutor(_MOST_LANES, "trial") as executor:
            running: dict[Future[TuneTrial], Candidate] = {}
            try:
                while True:
                    chosen, ended = self._next(tuple(running.values()))
                    if chosen is not None and len(running) < (1 if lanes is None else max(1, lanes.count())):
                        number = len(self._trials) + len(running) + 1
                        left_s = self._left_for_trials_s(under_way=bool(running))
                        asked = _Asked(
                            chosen,
                            Effort(_ROUNDS, max(left_s / 60, 0.01), _TURN_S),
                            f"trial {number}",
                            self._best_words(),
                        )
                        running[executor.submit(self._trial, asked)] = chosen
                        if lanes is not None:
                            continue
                    if not running:
                        return ended
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        del running[done]
                        self._trials.append(done.result())
                        self._on_trial(self._trials[-1])
            except BaseException:
                # The executor waits for its threads.
                if lanes is not None:
                    lanes.stop()
                raise

    def _next(self, running: Sequence[Candidate]) -> tuple[Candidate | None, str]:
        """The next candidate to measure while others run; without one, the reason why the search ends."""
        worth = self._worth_trials(running)
        if not worth:
            return None, "no combination left is likely to gain more"
        left_s = self._left_for_trials_s(under_way=bool(running))
        found = next((one for one in worth if self._trial_s + one.one_off_s <= left_s), None)
        if found is None:
            began = self._trials or running
            return None, "the budget is spent" if began else "the budget is too short for a trial"
        return found, ""

    def _left_for_trials_s(self, *, under_way: bool) -> float:
        """The seconds left without the time of a verification; a single trial needs no further verification."""
        return self._left_s - (_FINAL_COST * self._trial_s if under_way or _measured(self._trials) else 0.0)

    def verify(self) -> TuneTrial | None:
        """A second, longer trial of the leading candidate; None if it gains too little to be worth it."""
        best = leader(self._space, self._trials)
        if best is None or best.speedup is None or best.speedup.value < WORTH:
            return None
        if len(_measured(self._trials)) == 1 and not best.reason:
            return best
        if self._left_s < self._trial_s:
            return None
        candidate = self._candidate(best.parts)
        effort = replace(_FINAL, minutes=max(self._left_s / 60, 0.01))
        return self._trial(_Asked(candidate, effort, "verification", self._best_words()))

    def result(self, ended: str, verified: TuneTrial | None, *, interrupted: bool = False) -> Tuned:
        """The present result."""
        candidates = self._space.around(frozenset())
        return Tuned(
            tuple(self._trials),
            leader(self._space, self._trials),
            verified,
            max(candidates, key=lambda one: one.speedup.low, default=None),
            ended,
            self._clock() - self._began_s,
            self._trial_s,
            interrupted,
        )

    def _worth_trials(self, running: Sequence[Candidate]) -> list[Candidate]:
        """The candidates by their expected improvement per second of a trial, largest first.

        A running trial counts as if it had given its expected gain, so that the next one gives other
        information (the "kriging believer" of Ginsbourger, Le Riche and Carraro, 2010).
        """
        best = leader(self._space, self._trials)
        candidates = self._space.around(frozenset() if best is None else best.parts)
        under_way = {one.parts for one in running}
        tried = {one.parts for one in self._trials} | under_way
        known = {one.parts for one in _measured(self._trials)} | under_way
        failed = [one.parts for one in self._trials if one.speedup is None]
        evidence = _evidence(candidates, self._trials)
        beliefs = believed(candidates, evidence, self._singles)
        if under_way:
            evidence += [
                Evidence(candidate, belief.mean, LEAST_NOISE)
                for candidate, belief in zip(candidates, beliefs, strict=True)
                if candidate.parts in under_way
            ]
            beliefs = believed(candidates, evidence, self._singles)
        over = max([0.0, *(b.mean for c, b in zip(candidates, beliefs, strict=True) if c.parts in known)])
        found: list[tuple[float, Candidate]] = []
        for candidate, belief in zip(candidates, beliefs, strict=True):
            gain = belief.improvement(over)
            fails = any(parts <= candidate.parts for parts in failed)
            if candidate.parts not in tried and not fails and gain >= _WORTH_A_TRIAL:
                found.append((gain / (self._trial_s + candidate.one_off_s), candidate))
        return [one for _, one in sorted(found, key=lambda one: -one[0])]

    def _trial(self, asked: _Asked) -> TuneTrial:
        """Runs one trial, maybe in another thread, so it makes no queries to the space."""
        candidate, began_s = asked.candidate, self._clock()
        changes = tuple(sorted(map(str, candidate.parts)))
        trial = TuneTrial(changes, candidate.speedup)

        def progress(said: Progress) -> None:
            # A narrow terminal cuts the end of the line.
            parts = (f"{_clock_words(self._left_s)} left", asked.best, said.message, candidate.words)
            share = 1 - max(0.0, self._left_s) / max(self._budget.total_s, 1e-9)
            self._progress(Progress(asked.stage, " · ".join(filter(None, parts)), share))

        try:
            found = self._measurer(candidate, asked.effort, progress)
        except SkylineError as error:
            if isinstance(error, Cancelled) or not (
                error.of_change or isinstance(error, (RewriteRefused, UsageError))
            ):
                raise
            return replace(trial, took_s=self._clock() - began_s, dropped=True, reason=error.message)
        limit = self._budget.memory_bytes
        above = limit is not None and found.peak_bytes is not None and found.peak_bytes > limit
        return replace(
            trial,
            speedup=found.speedup,
            null=found.null,
            peak_bytes=found.peak_bytes,
            took_s=self._clock() - began_s,
            dropped=above,
            worker=found.worker or None,
            reason="its peak memory exceeds the limit" if above else found.reason or None,
        )

    def _candidate(self, parts: Parts) -> Candidate:
        return next(one for one in self._space.around(parts) if one.parts == parts)

    def _best_words(self) -> str:
        best = leader(self._space, self._trials)
        if best is None or best.speedup is None or best.speedup.value < 1:
            return ""
        return f"best so far {format_ratio_range(best.speedup)}"


def leader(space: Space, trials: Sequence[TuneTrial]) -> TuneTrial | None:
    """The trial whose combination is believed to be the fastest; None without a measured one."""
    found = _measured(trials)
    found = [one for one in found if not one.reason] or found
    candidates = {one.parts: one for one in space.around(frozenset())}
    found = [one for one in found if one.parts in candidates]
    if not found:
        return None
    measured = [candidates[one.parts] for one in found]
    beliefs = believed(measured, _evidence(measured, found), space.singles)
    fastest = max(one.mean for one in beliefs)
    near = [
        (len(trial.changes), -belief.mean, trial)
        for trial, belief in zip(found, beliefs, strict=True)
        if belief.mean >= fastest - _AS_FAST
    ]
    return min(near, key=lambda one: one[:2])[2]


def _measured(trials: Sequence[TuneTrial]) -> list[TuneTrial]:
    return [one for one in trials if one.speedup is not None and not one.dropped]


def _evidence(candidates: Sequence[Candidate], trials: Sequence[TuneTrial]) -> list[Evidence]:
    known = {one.parts: one for one in candidates}
    return [
        Evidence.of(known[one.parts], one.speedup, one.null)
        for one in trials
        if one.speedup is not None and one.parts in known
    ]


def _clock_words(seconds: float) -> str:
    left = max(0, int(seconds))
    return f"{left // 60}:{left % 60:02d}"
