"""Turns of a held run: the iterations that do not count, and the processes that stand still in between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from skyline.capture import held_run
from skyline.capture.batch_trials import PACE
from skyline.capture.events import StepRow
from skyline.capture.held_run import WARMS_AGAIN_MS, HeldRun


class Child:
    """A process whose iterations are slow for the first milliseconds after a pause, as others had the caches."""

    def __init__(self, step_ms: float) -> None:
        self.step_ms = step_ms
        self.signals: list[str] = []
        self.asked: list[int] = []

    def stop(self) -> None:
        self.signals.append("stop")

    def go_on(self) -> None:
        self.signals.append("go on")

    def close(self) -> None:
        self.signals.append("close")

    def rows(self, iterations: int) -> tuple[StepRow, ...]:
        self.asked.append(iterations)
        cold = round(0.9 * WARMS_AGAIN_MS / self.step_ms)
        return tuple(
            StepRow(self.step_ms * (2.0 if number < cold else 1.0), 0.0, 0.0, 0.0, 1, 1)
            for number in range(iterations)
        )


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch):
    """A run at the end of its warm-up."""
    monkeypatch.setattr(held_run, "run_bare", lambda child, iterations: child.rows(iterations))

    def make(child: Child, *, workers: int = 0, total: int | None = None) -> HeldRun:
        launcher = SimpleNamespace(request=SimpleNamespace(warmup=2))
        made = HeldRun(cast(Any, launcher), PACE, total=total)
        made._child = cast(Any, child)
        made._ready = cast(
            Any,
            SimpleNamespace(warmup=2, facts=SimpleNamespace(loaders=[SimpleNamespace(num_workers=workers)])),
        )
        made._typical_ms = child.step_ms
        return made

    return make


@pytest.mark.parametrize("step_ms", [0.5, 1.0, 3.0, 200.0])
def test_iterations_count_once_the_turn_has_warmed_up(held, step_ms: float) -> None:
    turn = held(Child(step_ms)).turn()
    assert turn.typical_ms == step_ms
    assert all(row.step_ms == step_ms for row in turn.rows)


def test_a_script_that_ends_keeps_its_iterations_for_its_turns(held) -> None:
    child = Child(1.0)
    held(child, total=150).turn()
    # Ten turns share 148 iterations.
    assert child.asked == [14]


def test_a_run_with_loader_workers_stands_still_between_its_turns(held) -> None:
    without, beside = Child(50.0), Child(50.0)
    held(without).turn()
    held(beside, workers=2).turn()
    assert without.signals == []
    assert beside.signals == ["go on", "stop"]


def test_a_run_that_stands_still_goes_on_for_other_work(held) -> None:
    child = Child(50.0)
    run = held(child, workers=1)
    run.turn()
    assert run.compute(lambda one: list(one.signals)) == ["go on", "stop", "go on"]
    assert child.signals[-1] == "stop"
