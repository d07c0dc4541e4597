"""Variants of a script that take turns on a machine that becomes slower all the time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skyline.capture import turns
from skyline.capture.bare import BareRows, beside_recording, beside_recording_on_device
from skyline.capture.events import StepRow
from skyline.capture.request import CaptureRequest
from skyline.capture.turns import Round, Turn, in_turns, trial, undisturbed
from skyline.interval import median
from skyline.trace.trial import UNCHANGED, Choices


@dataclass
class Machine:
    """Each turn on it takes a share longer than the one before."""

    slowing: float
    turns: int = 0
    order: list[int] = field(default_factory=list)


@dataclass
class Run:
    """A run whose iterations take a known time on a machine at rest, and that may end."""

    machine: Machine
    batch_size: int
    typical_ms: float
    ends_after: int = 10**6

    def turn(self) -> Turn | None:
        machine = self.machine
        machine.turns += 1
        self.ends_after -= 1
        if self.ends_after < 0:
            return None
        machine.order.append(self.batch_size)
        took = self.typical_ms * (1 + machine.slowing * machine.turns)
        return Turn(took, (row(took),), 0.5)


@pytest.mark.parametrize("slowing", [0.0, 0.02, -0.01])
def test_a_machine_that_drifts_does_not_favour_any_variant(slowing: float) -> None:
    machine = Machine(slowing)
    variants = [Run(machine, 8, 6.0), Run(machine, 32, 18.0), Run(machine, 64, 34.0)]
    rounds = in_turns(Run(machine, 16, 10.0), variants, rounds=8)
    trials = [trial(Choices(batch_size=one.batch_size), rounds, at) for at, one in enumerate(variants)]
    found = {one.choices.batch_size: median(one.ratios) for one in trials}
    assert found == pytest.approx({8: 0.6, 32: 1.8, 64: 3.4}, rel=0.005)
    assert {len(one.ratios) for one in trials} == {8}
    # The turns that wake the runs do not count.
    assert {len(one.times.steps_ms) for one in trials} == {8}
    order = machine.order[4:]
    assert order[:9] == [16, 8, 32, 64, 16, 64, 32, 8, 16]


def test_a_second_process_gives_the_null_and_swaps_places_with_the_first() -> None:
    machine = Machine(0.0)
    base, change, again = Run(machine, 1, 10.0), Run(machine, 2, 8.0), Run(machine, 3, 11.0)
    rounds = in_turns(base, [change], again, rounds=4, wakes=False)
    assert machine.order == [1, 2, 3, 3, 2, 1] * 2
    found = trial(Choices(change="faster"), rounds, peak_bytes=5)
    assert found.null == pytest.approx([1.1] * 4)
    assert found.ratios == pytest.approx([8 / 10.5] * 4)
    assert (found.others_cores, found.peak_bytes) == (0.5, 5)


def round_of(base_ms: float, variant_ms: float, again_ms: float = 1.0) -> Round:
    return Round(Turn(base_ms), Turn(again_ms), (Turn(variant_ms),))


def test_rounds_with_a_turn_that_other_programs_slowed_down_do_not_count() -> None:
    calm = [round_of(1.0, 0.6), round_of(1.2, 0.7), round_of(0.9, 1.5)]
    disturbed = [round_of(27.0, 0.6), round_of(1.0, 0.6, again_ms=20.0), round_of(1.1, 14.0)]
    rounds = [disturbed[0], calm[0], disturbed[1], *calm[1:], disturbed[2]]
    assert undisturbed(rounds) == calm
    assert undisturbed(rounds, None) == [*calm, disturbed[2]]
    # Two rounds do not show what is usual.
    few = [*disturbed, *calm[:2]]
    assert undisturbed(few) == few
    assert undisturbed([]) == []


def test_what_ended_is_left_out_and_nothing_goes_on_without_the_unchanged_script() -> None:
    machine = Machine(0.0)
    variants = [Run(machine, 8, 6.0), Run(machine, 32, 18.0, ends_after=2)]
    rounds = in_turns(Run(machine, 16, 10.0, ends_after=5), variants, rounds=8)
    assert trial(Choices(), rounds, 0).ratios == pytest.approx([0.6] * 4)
    assert len(trial(Choices(), rounds, 1).ratios) == 1
    # The script ended before it could close the last round.
    assert len(trial(Choices(), rounds, 0).null) == 3
    assert len(trial(UNCHANGED, rounds, None).times.steps_ms) == 7


def test_rounds_end_with_the_time_but_not_before_the_least() -> None:
    machine = Machine(0.0)
    base, change = Run(machine, 1, 10.0), Run(machine, 2, 8.0)
    assert len(in_turns(base, [change], rounds=8, least=3, deadline=0.0)) == 3
    assert len(in_turns(base, [Run(machine, 2, 8.0, ends_after=3)], rounds=8)) == 3


def test_a_round_that_would_end_too_late_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: clock.now_s))

    class Slow(Run):
        def turn(self) -> Turn | None:
            clock.now_s += 1.0
            return super().turn()

    machine = Machine(0.0)
    base, change = Slow(machine, 1, 10.0), Slow(machine, 2, 8.0)
    # The first takes three turns, those behind it two; before each, three are expected, then two.
    assert len(in_turns(base, [change], rounds=8, deadline=7.0, wakes=False)) == 3
    assert clock.now_s == 7.0
    assert len(in_turns(base, [change], rounds=8, deadline=13.5, wakes=False)) == 2
    assert clock.now_s == 12.0


def row(step_ms: float) -> StepRow:
    return StepRow(step_ms, 0.0, 0.0, 0.0, 1, 1)


class Recorded:
    """A child whose iterations take 20 ms where they wait for the device, else 12."""

    def __init__(self) -> None:
        self.waiting = False
        self.count = 0

    def send(self, do: str, *, iterations: int, waiting: bool) -> None:
        self.waiting, self.count = waiting, iterations

    def receive(self, *wanted: str) -> dict[str, Any]:
        return {"rows": [asdict(row(20.0 if self.waiting else 12.0))] * self.count}


def test_a_recording_is_set_against_iterations_around_it_and_they_count() -> None:
    rows = BareRows([row(12.0)] * 4)
    request = CaptureRequest(Path("train.py"))
    assert set(beside_recording(cast(Any, Recorded()), request, rows, 3)) == {12.0}
    assert len(rows.steps_ms) == 7


def test_a_recording_of_a_device_is_set_against_iterations_that_wait_as_it_does() -> None:
    assert beside_recording_on_device(cast(Any, Recorded()), 3) == (20.0, 20.0, 20.0)
