"""Batch sizes that take turns on a machine that becomes slower all the time."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from skyline.capture.bare import BareRows, beside_recording, slower_since
from skyline.capture.events import StepRow
from skyline.capture.request import CaptureRequest
from skyline.capture.rounds import Contender, measure_in_rounds
from skyline.spread import median


@dataclass
class Machine:
    """Each turn on it takes a share longer than the one before."""

    slowing: float
    turns: int = 0
    order: list[int] = field(default_factory=list)


class Run(Contender):
    """A run whose iterations take a known time on a machine at rest, and that may end."""

    machine: Machine
    ends_after: int = 10**6

    def turn(self, rounds: int) -> float | None:
        machine = self.machine
        machine.turns += 1
        self.ends_after -= 1
        if self.ends_after < 0:
            return None
        machine.order.append(self.batch_size)
        took = self.typical_ms * (1 + machine.slowing * machine.turns)
        self.rows.rows.append(StepRow(took, 0.0, 0.0, 0.0, 1, 1, 1))
        return took


def run(machine: Machine, batch_size: int, typical_ms: float, ends_after: int = 10**6) -> Run:
    made = Run(batch_size, cast(Any, None), typical_ms, 1000 * batch_size, (batch_size,))
    made.machine, made.ends_after = machine, ends_after
    return made


@pytest.mark.parametrize("slowing", [0.0, 0.02, -0.01])
def test_a_machine_that_drifts_does_not_favour_any_size(slowing: float) -> None:
    machine = Machine(slowing)
    others = [run(machine, 8, 6.0), run(machine, 32, 18.0), run(machine, 64, 34.0)]
    points = measure_in_rounds(run(machine, 16, 10.0), cast("list[Contender]", others), 60.0)
    found = {point.batch_size: median(point.ratios) for point in points}
    assert found == pytest.approx({8: 0.6, 32: 1.8, 64: 3.4}, rel=0.005)
    assert {len(point.ratios) for point in points} == {8}
    rounds = machine.order[4:]
    assert rounds[:9] == [16, 8, 32, 64, 16, 64, 32, 8, 16]


def test_what_ended_is_left_out_and_nothing_goes_on_without_the_base() -> None:
    machine = Machine(0.0)
    others = [run(machine, 8, 6.0), run(machine, 32, 18.0, ends_after=2)]
    points = measure_in_rounds(run(machine, 16, 10.0, ends_after=5), cast("list[Contender]", others), 60.0)
    (point,) = points
    assert point.batch_size == 8
    assert point.ratios == pytest.approx([0.6] * 4)


def row(step_ms: float) -> StepRow:
    return StepRow(step_ms, 0.0, 0.0, 0.0, 1, 1)


def test_a_recorder_that_stays_attached_is_noticed() -> None:
    rows = BareRows([row(ms) for ms in (10.0, 10.1, 9.9, 11.0, 11.1, 10.9)])
    (note,) = slower_since(rows, 3)
    assert "10% longer" in note
    assert slower_since(BareRows([row(10.0)] * 6), 3) == ()
    assert slower_since(rows, 5) == (), "too few to say"


class Recorded:
    """A child whose iterations take 20 ms where they wait for the device, else 12."""

    def __init__(self) -> None:
        self.waiting = False
        self.count = 0

    def send(self, do: str, *, iterations: int, waiting: bool) -> None:
        self.waiting, self.count = waiting, iterations

    def receive(self, *wanted: str) -> dict[str, Any]:
        return {"rows": [asdict(row(20.0 if self.waiting else 12.0))] * self.count}


@pytest.mark.parametrize("on_device", [True, False])
def test_a_recording_is_set_against_iterations_that_wait_as_it_does(on_device: bool) -> None:
    rows = BareRows([row(12.0)] * 4)
    request = CaptureRequest(Path("train.py"))
    paired = beside_recording(cast(Any, Recorded()), request, rows, 3, on_device=on_device)
    assert set(paired) == {20.0 if on_device else 12.0}
    assert set(rows.steps_ms) == {12.0}
    assert len(rows.steps_ms) == 7
