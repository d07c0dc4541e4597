"""Trials at other batch sizes within their time, on a clock that iterations alone advance."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skyline.capture import batch_trials, trial_budget, turns
from skyline.capture.bare import BareRows
from skyline.capture.batch_trials import BatchTrials, measure_batch_sizes
from skyline.capture.batch_way import SizedRun
from skyline.capture.events import StepRow
from skyline.capture.size_costs import SizeCosts
from skyline.capture.trial_budget import TrialBudget
from skyline.capture.turns import Turn
from skyline.lazy_dataclass import dataclass
from skyline.trace.trial import Choices

OWN_SIZE = 16
STEPS_UNTIL_TURNS = 9


class Machine:
    """Its clock, and the factor by which other programs slow it down from each moment on."""

    def __init__(self, *, slower_after_s: float = 1e9, factor: float = 1.0) -> None:
        self.now_s = 0.0
        self.slower_after_s = slower_after_s
        self.factor = factor

    def compute(self, seconds: float) -> float:
        took_s = seconds * (self.factor if self.now_s >= self.slower_after_s else 1.0)
        self.now_s += took_s
        return took_s


class Held:
    """A run whose iterations take time in proportion to its batch, after a setup of a second."""

    peak_bytes = 8
    room = None
    typical_ms = 0.0
    setup_s = 1.0

    def __init__(self, machine: Machine, size: int, step_s: float, *, recorded: bool = True) -> None:
        self.machine, self.step_s = machine, step_s * size / OWN_SIZE
        self.until_turns = STEPS_UNTIL_TURNS if recorded else STEPS_UNTIL_TURNS - 5
        self.ready = SimpleNamespace(facts=SimpleNamespace())

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None: ...

    def launch(self) -> None: ...

    def close(self) -> None: ...

    def warm_up(self) -> None:
        self.machine.compute(self.setup_s)
        self.typical_ms = 1e3 * self.machine.compute(self.until_turns * self.step_s) / self.until_turns

    def turn(self) -> Turn:
        took_ms = 1e3 * self.machine.compute(2 * self.step_s) / 2
        return Turn(took_ms, (StepRow(took_ms, 0.0, 0.0, 0.0, 1, 1),))


@dataclass(frozen=True, slots=True)
class Run:
    """The script's own run; a batch of it sets nothing but its size."""

    rows: BareRows
    ready: Any
    recording: Any
    facts: Any
    in_force: Any
    notes: tuple[str, ...] = ()
    knobs: Any = None
    ended_after: int | None = None
    dataset_size: int | None = None
    batch_size: int = OWN_SIZE

    def iterations_at(self, size: int) -> None: ...


Measure = Callable[..., tuple[BatchTrials, Machine]]


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Measure:
    def measured(
        step_s: float,
        budget_s: float,
        machine: Machine | None = None,
        later_s: float = 0.0,
        *,
        follows: bool = True,
    ) -> tuple[BatchTrials, Machine]:
        machine = machine or Machine()
        clock = SimpleNamespace(monotonic=lambda: machine.now_s)
        for module in (batch_trials, trial_budget, turns):
            monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(batch_trials, "ways", lambda run: ["a loader"])
        monkeypatch.setattr(batch_trials, "sized_run", lambda way, size, *_: SizedRun(arguments=(str(size),)))
        monkeypatch.setattr(batch_trials, "followed_by", lambda *_: follows)
        monkeypatch.setattr(batch_trials, "ignored", lambda way: f"{way} was ignored")

        def held(launcher: object, pace: object, *, sized: SizedRun, total: object, recorded: bool) -> Held:
            return Held(machine, int(sized.arguments[0]), step_s, recorded=recorded)

        monkeypatch.setattr(batch_trials, "HeldRun", held)
        launcher = SimpleNamespace(
            request=SimpleNamespace(batch_points=3, arguments=()), sources={}, say=lambda *_: None
        )
        run = Run(
            rows=BareRows([StepRow(1e3 * step_s, 0.0, 0.0, 0.0, 1, 1)] * 3),
            ready=SimpleNamespace(script_s=1.0 + 3 * step_s, warmup=3),
            recording=SimpleNamespace(memory=SimpleNamespace(total_bytes=0), peak_bytes=8),
            facts=SimpleNamespace(environment=SimpleNamespace(cpu_count=2, intraop_threads=2)),
            in_force=SimpleNamespace(loader=None, sure=True),
        )
        with ExitStack() as stack:
            found = measure_batch_sizes(
                stack,
                cast(Any, launcher),
                cast(Any, Held(machine, OWN_SIZE, step_s)),
                cast(Any, run),
                TrialBudget(budget_s),
                lambda left_s: later_s,
            )
        return found, machine

    return measured


def sizes(found: BatchTrials) -> list[int | None]:
    return [one.choices.batch_size for one in found.trials]


def test_quick_iterations_have_all_their_sizes_and_rounds(measure: Measure) -> None:
    found, machine = measure(0.02, 20.0)
    assert sizes(found) == [32, 4, 64]
    assert {len(one.ratios) for one in found.trials} == {8}
    assert found.run.notes == ()
    assert machine.now_s <= 20.0


def test_a_size_that_cannot_end_in_time_is_not_started(measure: Measure) -> None:
    found, machine = measure(0.6, 20.0)
    assert sizes(found) == [32, 4]
    (note,) = found.run.notes
    assert note.startswith("Batch size 64: modelled, not measured, because the time for trials (20 s) was")
    assert "--budget 50" in note
    assert machine.now_s <= 20.0
    assert sizes(measure(0.6, 50.0)[0]) == [32, 4, 64], "the note is right about what is enough"


def test_a_slow_start_does_not_make_turns_slow(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Held, "setup_s", 4.0)
    found, _ = measure(0.005, 20.0)
    assert sizes(found) == [32, 4, 64]


def test_two_sizes_may_take_longer_than_the_budget(measure: Measure) -> None:
    """A drag starts from them. The others are modelled."""
    found, machine = measure(1.2, 20.0)
    assert sizes(found) == [32, 4]
    (note,) = found.run.notes
    assert note.startswith("Batch size 64: modelled, not measured, because the time for trials (20 s) was")
    assert 20.0 < machine.now_s <= 40.0


def test_one_size_is_measured_whatever_it_takes(measure: Measure) -> None:
    found, _ = measure(3.0, 20.0)
    assert sizes(found) == [32]
    (note,) = found.run.notes
    assert note.startswith("Batch sizes 4, 8: modelled, not measured, because the time for trials (20 s) was")


def test_a_machine_that_became_busy_has_one_size(measure: Measure) -> None:
    assert sizes(measure(0.35, 20.0)[0]) == [32, 4, 8]
    assert sizes(measure(0.35, 20.0, Machine(slower_after_s=1.0, factor=8.0))[0]) == [32]


def test_on_a_machine_that_becomes_busy_there_is_one_round_with_its_range(measure: Measure) -> None:
    found, machine = measure(0.4, 20.0, Machine(slower_after_s=7.0, factor=2.0))
    assert sizes(found) == [32, 4, 8]
    # The ends of its range; the machine was equally slow all through.
    assert [one.ratios for one in found.trials] == [
        pytest.approx((ratio, ratio)) for ratio in (2.0, 0.25, 0.5)
    ]
    assert [len(one.null) for one in found.trials] == [1, 1, 1]
    assert machine.now_s <= 20.0


def test_where_there_is_no_time_for_a_round_two_sizes_have_one(measure: Measure) -> None:
    found, _ = measure(0.35, 20.0, Machine(slower_after_s=6.0, factor=6.0))
    assert sizes(found) == [32, 4]
    assert found.run.notes[0].startswith("Batch sizes 8, 64: modelled, not measured")
    assert [len(one.null) for one in found.trials] == [1, 1]


def test_time_that_the_later_trials_keep_is_left_to_them(measure: Measure) -> None:
    everything, _ = measure(0.1, 25.0)
    assert sizes(everything) == [32, 4, 64]
    found, machine = measure(0.1, 25.0, later_s=18.0)
    assert set(sizes(found)) < set(sizes(everything))
    assert machine.now_s <= 10.0


def test_only_one_run_is_warmed_up_if_it_does_not_follow(measure: Measure) -> None:
    found, machine = measure(0.1, 25.0, follows=False)
    assert found.run.notes == ("a loader was ignored",)
    assert machine.now_s == pytest.approx(Held.setup_s + STEPS_UNTIL_TURNS * 0.1 * 32 / OWN_SIZE)


def test_few_iterations_of_a_slow_script_are_joined_by_those_of_its_turns(measure: Measure) -> None:
    slow, _ = measure(0.8, 20.0)
    rounds = max(len(one.null) for one in slow.trials)
    assert len(slow.run.rows.rows) == 3 + rounds + 1, "a turn between two rounds counts once"


def test_one_round_is_as_wide_as_the_script_moved_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slowing = iter((10.0, 10.0, 10.0, 30.0, 12.0))
    one_round = turns.in_turns(
        cast(Any, SimpleNamespace(turn=lambda: Turn(next(slowing)))),
        [cast(Any, SimpleNamespace(turn=lambda: Turn(next(slowing))))],
        rounds=1,
    )
    found = turns.trial(Choices(batch_size=32), one_round)
    assert (found.ratios, found.null) == ((30 / 11,), (1.2,))
    assert turns.widened(found).ratios == pytest.approx((30 / 11 / 1.2, 30 / 11 * 1.2))
    assert turns.widened(replace(found, null=())).ratios == (), "the script ended within the round"
    two = replace(found, ratios=(2.0, 3.0))
    assert turns.widened(two) == two


def test_costs_grow_with_the_size_and_with_a_script_that_starts_again() -> None:
    costs = SizeCosts(16, 0.05, 2.0, 3)
    assert costs.until_turns_s(32) == 2.0 + 9 * 0.1
    assert costs.until_turns_s(4) == 2.0 + 9 * 0.05 * 0.625
    assert costs.all_s([32, 64]) > costs.all_s([32]) > costs.rounds_s([32], 2)
    again = SizeCosts(16, 0.05, 2.0, 3, starts_again=True)
    assert again.all_s([32]) == pytest.approx(costs.all_s([32]) + costs.until_turns_s(16))


def test_sizes_of_slow_iterations_record_no_memory_and_have_no_uncounted_turn() -> None:
    costs = SizeCosts(16, 0.3, 2.0, 3)
    assert [costs.records_memory(size) for size in (8, 16, 32)] == [True, True, False]
    assert costs.until_turns_s(32) == 2.0 + 4 * 0.6
    assert not costs.wakes
    assert costs.rounds_s([32], 1) == pytest.approx(2 * 0.6 + 1.2)
    on_a_device = replace(costs, always_records=True)
    assert on_a_device.records_memory(32)
