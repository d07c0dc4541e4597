"""The search with trials of known outcome and duration."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import log

import pytest

from skyline.capture.request import Progress, ProgressCallback
from skyline.errors import Cancelled, CaptureImpossible, RewriteRefused, ScriptFailed
from skyline.interval import Interval
from skyline.tune.belief import Evidence, believed
from skyline.tune.search import Budget, Lanes, Outcome, Tuned, leader, tune
from skyline.tune.space import Candidate
from skyline.tune.trials import TuneTrial
from skyline.verification.measure import Effort
from skyline.whatif.question import Choice

WORKERS, FUSED, LAYOUT, COMPILE = (
    Choice("num_workers", "2"),
    Choice("fused_optimizer"),
    Choice("channels_last"),
    Choice("compile", "default"),
)
SIMULATED = {WORKERS: 1.5, FUSED: 1.1, LAYOUT: 1.05, COMPILE: 1.3}


def about(value: float, share: float = 0.05) -> Interval:
    return Interval(value, value * (1 - share), value * (1 + share))


def product(parts: Iterable[Choice], factors: dict[Choice, float]) -> float:
    found = 1.0
    for part in parts:
        found *= factors[part]
    return found


@dataclass(slots=True)
class FakeSpace:
    """All combinations of some parts; a simulation multiplies."""

    parts: tuple[Choice, ...] = (WORKERS, FUSED, LAYOUT)
    asked: list[frozenset[Choice]] = field(default_factory=list[frozenset[Choice]])

    @property
    def singles(self) -> dict[Choice, Interval]:
        return {part: about(SIMULATED[part]) for part in self.parts}

    def around(self, chosen: frozenset[Choice]) -> tuple[Candidate, ...]:
        self.asked.append(chosen)
        count = len(self.parts)
        subsets = [
            frozenset(self.parts[index] for index in range(count) if number >> index & 1)
            for number in range(1, 2**count)
        ]
        return tuple(
            Candidate(one, about(product(one, SIMULATED)), 60.0 if COMPILE in one else 0.0) for one in subsets
        )


@dataclass(slots=True)
class FakeTrials:
    """Trials that take ``took_s`` on a clock of their own, and give the product of the true factors."""

    true: dict[Choice, float]
    took_s: float = 10.0
    fails: dict[Choice, BaseException] = field(default_factory=dict[Choice, BaseException])
    stop_at: int = 1000
    null: float = 1.0
    reason: str = ""
    measured: list[frozenset[Choice]] = field(default_factory=list[frozenset[Choice]])
    now_s: float = 0.0
    told: list[Progress] = field(default_factory=list[Progress])

    def __call__(self, candidate, effort, progress) -> Outcome:
        self.measured.append(candidate.parts)
        progress(Progress("measure", "round 1 of 6", 0.5))
        for part, error in self.fails.items():
            if part in candidate.parts:
                self.now_s += self.took_s / 2
                raise error
        if len(self.measured) > self.stop_at:
            raise KeyboardInterrupt
        self.now_s += self.took_s * effort.rounds / 6
        return Outcome(
            about(product(candidate.parts, self.true), 0.01),
            self.null,
            10**6 * len(candidate.parts),
            self.reason,
        )

    def run(self, budget_s: float, space: FakeSpace | None = None, **options) -> Tuned:
        budget = Budget(budget_s, self.took_s, options.pop("memory_bytes", None))
        return tune(
            space or FakeSpace(),
            self,
            budget,
            progress=self.told.append,
            clock=lambda: self.now_s,
            **options,
        )


def of_change(error: ScriptFailed) -> ScriptFailed:
    error.of_change = True
    return error


TRUE = {WORKERS: 1.45, FUSED: 1.12, LAYOUT: 0.8, COMPILE: 1.3}


def test_the_best_is_found_verified_and_free_of_what_slows_it() -> None:
    """The simulation would choose all three; one of them slows the script."""
    trials = FakeTrials(TRUE)
    found = trials.run(300)
    assert found.simulated is not None
    assert found.simulated.parts == {WORKERS, FUSED, LAYOUT}
    assert found.best is not None
    assert found.best.parts == {WORKERS, FUSED}
    assert found.worth
    assert trials.measured[-1] == {WORKERS, FUSED}
    assert trials.measured.count(frozenset({WORKERS, FUSED})) == 2
    assert len(trials.measured) < 7


def test_the_budget_holds_with_the_verification_in_it() -> None:
    for budget_s in (10, 25, 45, 80, 200):
        trials = FakeTrials(TRUE)
        found = trials.run(budget_s)
        assert found.spent_s <= budget_s
        assert found.worth, budget_s


def test_one_trial_is_its_own_verification() -> None:
    trials = FakeTrials(TRUE)
    found = trials.run(10)
    assert len(trials.measured) == 1
    assert found.verified == found.best


def test_a_budget_below_one_trial_measures_nothing_and_keeps_the_suggestion() -> None:
    trials = FakeTrials(TRUE)
    found = trials.run(9)
    assert trials.measured == []
    assert found.best is None
    assert found.ended == "the budget is too short for a trial"
    assert found.simulated is not None


@pytest.mark.parametrize(
    "error",
    [
        of_change(ScriptFailed("With the change, the script failed: no")),
        RewriteRefused("It cannot be written"),
    ],
)
def test_what_fails_is_dropped_with_its_reason_and_the_rest_goes_on(error: Exception) -> None:
    trials = FakeTrials(TRUE, fails={WORKERS: error})
    found = trials.run(300)
    failed = [one for one in found.trials if one.dropped]
    assert failed
    assert {one.reason for one in failed} == {str(error)}
    assert found.best is not None
    assert found.best.parts == {FUSED}
    assert found.worth
    for number, parts in enumerate(trials.measured):
        assert not any(WORKERS in one and one < parts for one in trials.measured[:number])


def test_a_failure_of_the_script_itself_ends_the_search() -> None:
    kept: list[TuneTrial] = []
    trials = FakeTrials(TRUE, fails={LAYOUT: ScriptFailed("the script failed")})
    with pytest.raises(ScriptFailed):
        trials.run(300, on_trial=kept.append)
    trials = FakeTrials(TRUE, fails={LAYOUT: CaptureImpossible("train.py changed since it was profiled")})
    with pytest.raises(CaptureImpossible):
        trials.run(300)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Cancelled("stopped")])
def test_an_interruption_keeps_the_best_so_far(stop: BaseException) -> None:
    trials = FakeTrials(TRUE, stop_at=2)
    found = trials.run(300)
    assert found.interrupted
    assert len(found.trials) == 2
    assert found.best is not None
    assert found.verified is None
    assert not found.worth
    trials = FakeTrials(TRUE, fails={WORKERS: stop})
    found = trials.run(300)
    assert found.interrupted
    assert found.best is None


def test_progress_tells_the_trial_the_best_so_far_and_the_time_left() -> None:
    trials = FakeTrials(TRUE)
    trials.run(100)
    first, second, *_, last = trials.told
    assert (first.stage, first.fraction) == ("trial 1", 0.0)
    assert first.message == "1:40 left · round 1 of 6 · channels_last fused_optimizer num_workers=2"
    assert second.stage == "trial 2"
    assert second.message.startswith("1:30 left · best so far 1.30x (1.29–1.31x) · round 1 of 6 · ")
    assert second.fraction == pytest.approx(0.1)
    assert last.stage == "verification"


def test_a_search_goes_on_from_earlier_trials() -> None:
    first = FakeTrials(TRUE, stop_at=2).run(300)
    second, space = FakeTrials(TRUE), FakeSpace()
    found = second.run(300, space, earlier=first.trials)
    assert {one.parts for one in first.trials} <= set(space.asked[:2])
    assert not {one.parts for one in first.trials} & set(second.measured[:-1])
    assert found.trials[:2] == first.trials
    assert found.best is not None
    assert found.best.parts == {WORKERS, FUSED}
    assert found.worth


def test_nothing_that_gains_is_nothing_to_verify() -> None:
    trials = FakeTrials(dict.fromkeys(SIMULATED, 0.99))
    found = trials.run(300)
    assert found.verified is None
    assert not found.worth
    assert len(trials.measured) <= 7


def test_a_costly_candidate_waits_for_cheap_ones() -> None:
    """Compiling takes a minute; the simulated gain for each second is that of the workers."""
    space = FakeSpace((WORKERS, COMPILE))
    trials = FakeTrials({**TRUE, WORKERS: 1.5})
    trials.run(300, space)
    assert trials.measured[0] == {WORKERS}
    trials = FakeTrials({**TRUE, WORKERS: 1.1})
    found = trials.run(60, space)
    assert not any(COMPILE in parts for parts in trials.measured)
    assert found.worth


def test_peak_memory_above_the_limit_is_dropped() -> None:
    found = FakeTrials(TRUE).run(300, memory_bytes=1.5e6)
    assert found.best is not None
    assert found.best.parts == {WORKERS}
    assert {one.reason for one in found.trials if one.dropped} == {"its peak memory exceeds the limit"}


def test_an_uncertain_verification_is_no_proof() -> None:
    found = FakeTrials(TRUE, reason="noisy: other programs").run(300)
    assert found.best is not None
    assert not found.worth


def test_of_equal_combinations_the_one_with_fewer_changes_leads() -> None:
    def trial(speedup: float, *changes: str) -> TuneTrial:
        return TuneTrial(changes, about(1.5), about(speedup, 0.01), took_s=10.0)

    both, one = trial(1.495, "fused_optimizer", "num_workers=2"), trial(1.5, "num_workers=2")
    assert leader(FakeSpace(), [both, one]) == one
    assert leader(FakeSpace(), [replace(both, speedup=about(1.55, 0.01)), one]) != one
    noisy = replace(both, speedup=about(1.9), reason="noisy")
    assert leader(FakeSpace(), [noisy, one]) == one


def test_evidence_corrects_all_candidates_that_share_a_part() -> None:
    candidates = FakeSpace().around(frozenset())
    one = next(each for each in candidates if each.parts == {WORKERS})
    singles = FakeSpace().singles
    before = believed(candidates, [], singles)
    after = believed(candidates, [Evidence(one, log(1.2), 0.01)], singles)
    for candidate, old, new in zip(candidates, before, after, strict=True):
        if WORKERS in candidate.parts:
            assert new.mean < old.mean
            assert new.deviation < old.deviation
        else:
            assert new == pytest.approx(old)
    known = after[candidates.index(one)]
    assert known.mean == pytest.approx(log(1.2), abs=0.03)


def test_expected_improvement_of_a_sure_belief_is_its_gain() -> None:
    candidate = replace(FakeSpace().around(frozenset())[0], speedup=Interval.exact(1.2))
    (belief,) = believed([candidate], [], {part: Interval.exact(1.0) for part in candidate.parts})
    assert belief.improvement(-1.0) == pytest.approx(log(1.2) + 1.0, rel=1e-3)
    assert belief.improvement(1.0) == pytest.approx(0.0, abs=1e-6)
    assert belief.improvement(log(1.2)) == pytest.approx(0.4 * belief.deviation, rel=0.01)


@dataclass(slots=True)
class WorkerTrials(FakeTrials):
    """Trials in threads; the first ones wait until ``meeting`` of them run."""

    meeting: int = 1
    most: int = 0
    running: int = 0
    begun: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, candidate, effort, progress) -> Outcome:
        with self.begun:
            self.running += 1
            self.most = max(self.most, self.running)
            self.begun.notify_all()
            assert self.begun.wait_for(lambda: self.most >= self.meeting, timeout=30)
            found = FakeTrials.__call__(self, candidate, effort, progress)
            self.running -= 1
        return replace(found, worker=f"worker of {candidate.words}")


def test_trials_run_side_by_side_one_on_each_worker() -> None:
    trials, stopped = WorkerTrials(TRUE, meeting=2), threading.Event()
    found = trials.run(1000, lanes=Lanes(lambda: 2, stopped.set))
    assert trials.most == 2
    assert found.best is not None
    assert found.best.parts == {WORKERS, FUSED}
    assert found.worth
    measured = [one.words for one in found.trials]
    assert len(measured) == len(set(measured)), "a running trial is not started again"
    assert all(one.worker == f"worker of {one.words}" for one in found.trials)
    assert not stopped.is_set()


def test_a_second_trial_waits_where_only_one_worker_is_left() -> None:
    trials = WorkerTrials(TRUE)
    assert trials.run(1000, lanes=Lanes(lambda: 1, lambda: None)).worth
    assert trials.most == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ScriptFailed("the script failed")])
def test_the_end_of_a_search_stops_the_trials_on_other_workers(error: BaseException) -> None:
    stopped, fused_started = threading.Event(), threading.Event()

    def measurer(candidate: Candidate, effort: Effort, progress: ProgressCallback) -> Outcome:
        if fused_started.is_set():
            raise error
        fused_started.set()
        assert stopped.wait(30), "nobody stopped it"
        raise Cancelled("The search was cancelled")

    def run() -> Tuned:
        lanes = Lanes(lambda: 2, stopped.set)
        return tune(FakeSpace(), measurer, Budget(1000, 1), progress=lambda _: None, lanes=lanes)

    if isinstance(error, KeyboardInterrupt):
        assert run().interrupted
    else:
        with pytest.raises(ScriptFailed):
            run()
    assert stopped.is_set()
