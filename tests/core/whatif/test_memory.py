"""Changes of memory: they act on the levels over the iteration, and the peak may move."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.interval import Interval
from skyline.memory.levels import RecordedLevels
from skyline.memory.peak import MemoryBreakdown
from skyline.whatif.memory import Memory, most_activations_for

LASTING = 30.0
PEAK = MemoryBreakdown(parameters=10, gradients=10, optimizer=20, activations=60, other=0)


def levels(activations: list[float], gradients: list[float], stepping: list[float]) -> RecordedLevels:
    """Levels over 30 bytes of parameters and optimizer state."""
    held, grads, step = (np.array(each, np.float64) for each in (activations, gradients, stepping))
    times, live = np.arange(len(held), dtype=np.float64), LASTING + held + grads + step
    return RecordedLevels(times, live, held, grads, step, step > 0, (), float(held.max()))


# The end of the forward pass is the peak, and the step is next to it.
ITERATION = levels([0, 60, 30, 0], [0, 0, 5, 10], [0, 0, 0, 40])


def memory() -> Memory:
    return Memory.at(ITERATION, parameters=10.0, optimizer=20.0)


def test_the_peak_moves_to_the_step_if_activations_shrink() -> None:
    assert memory().peak_bytes == Interval.exact(90.0)
    half = memory().with_activations(Interval(0.5, 0.4, 0.9))
    assert half.peak_bytes == Interval(80.0, 80.0, 84.0)
    # Without temporary memory of the step, the shrunk activations show.
    assert half.changed(lambda now: now.with_step(0.0)).peak_bytes.value == 60.0


def test_independent_changes_may_come_in_any_order() -> None:
    changes = (
        lambda now: now.with_activations(Interval(0.5, 0.4, 0.6)),
        lambda now: now.with_weights(0.5),
        lambda now: now.changed(lambda then: then.with_step(10.0)),
        lambda now: now.more("other", Interval.exact(7.0)),
    )
    peaks = set()
    for order in permutations(changes):
        made = memory()
        for change in order:
            made = change(made)
        peaks.add(round(made.peak_bytes.value, 6))
        assert (made.parameters, made.optimizer) == (5.0, 10.0)
    assert len(peaks) == 1


def test_an_owner_is_never_less_than_nothing() -> None:
    assert memory().less("activations", Interval.exact(1e9)).peak_bytes.value == LASTING + 10 + 40
    gone = memory().less("optimizer", Interval(1e9, 5.0, 1e9))
    assert (gone.optimizer, gone.peak_bytes) == (0.0, Interval(70.0, 70.0, 85.0))
    assert (
        memory().less("gradients", Interval.exact(10.0)).changed(lambda now: now.scaled(0.0)).peak_bytes.value
        == 70
    )


def test_without_recorded_levels_the_peak_is_the_only_one() -> None:
    only = Memory.of(PEAK, None)
    assert only.peak_bytes == Interval.exact(100.0)
    assert only.with_weights(0.5).with_activations(Interval.exact(0.5)).peak_bytes.value == 50.0
    bare = Memory.of(MemoryBreakdown(10, 0, 20, 0, 0), None)
    assert bare.more("activations", Interval.exact(8.0)).peak_bytes.value == 38.0
    assert bare.more("gradients", Interval.exact(8.0)).peak_bytes.value == 38.0


def test_recorded_levels_reach_the_reported_peak() -> None:
    assert Memory.of(PEAK, ITERATION).peak_bytes == Interval.exact(100.0)


@pytest.mark.parametrize(("peak", "activations"), [(150.0, 120.0), (80.0, 30.0), (60.0, 30.0)])
def test_a_batch_reaches_its_peak_by_its_activations(peak: float, activations: float) -> None:
    made = memory().to_peak(Interval.exact(peak), 0.0, activations / 60)
    assert made.peak_bytes.value == pytest.approx(peak)
    assert made.levels.most_activations == pytest.approx(activations)


@given(
    st.lists(st.tuples(*[st.floats(0, 1e9)] * 3), min_size=1, max_size=20),
    st.floats(0.01, 100.0),
)
def test_the_factor_gives_the_peak_that_it_is_asked_for(rows: list[tuple[float, ...]], factor: float) -> None:
    made = levels(*(list(each) for each in zip(*rows, strict=True)))
    peak = made.scaled(factor).peak().peak_bytes
    found = most_activations_for(made, peak)
    assert made.scaled(found).peak().peak_bytes == pytest.approx(peak, rel=2e-3)
