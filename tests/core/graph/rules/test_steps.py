from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.from_kineto import built
from skyline.simulate.engine import simulate


def test_marked_steps_are_measured_and_simulated(traced, events) -> None:
    recorded = built(
        traced(
            events.note("ProfilerStep#5", 0, 100),
            events.op("aten::x", 10, 70),
            events.note("ProfilerStep#6", 101, 100),
            events.op("aten::x", 110, 70),
        )
    )
    assert recorded.steps.number.tolist() == [5, 6]
    starts = np.asarray(simulate(recorded.graph).starts)
    assert recorded.steps.simulated_us(starts) == pytest.approx(recorded.steps.measured_us)


def test_unmarked_steps_reach_from_fetch_to_fetch_or_from_optimizer_to_optimizer(traced, events) -> None:
    fetch = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    fetched = built(traced(*(events.note(fetch, start, 10) for start in (0, 100, 250))))
    assert fetched.steps.measured_us.tolist() == [100, 150]
    stepped = built(traced(*(events.note("Optimizer.step#SGD.step", start, 10) for start in (0, 100, 250))))
    assert stepped.steps.measured_us.tolist() == [100, 150]


def test_two_of_a_kind_are_no_steps(traced, events) -> None:
    recorded = built(traced(*(events.note("Optimizer.step#SGD.step", start, 10) for start in (0, 100))))
    assert len(recorded.steps) == 0
