"""The peak with blocks computed again, on paper: two blocks that keep 30 and 50 MB between their passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.memory.levels import recorded_levels
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Allocation, IterationMark, Phase, Record, RecordKind, Trace

MB = 1_000_000


def record(phase: Phase, start: float, end: float, module: int) -> Record:
    return Record("op", RecordKind.OPERATOR, phase, "main", 0, start, end - start, module=module)


def allocation(time: float, size: int, address: int, phase: Phase) -> Allocation:
    return Allocation(time, size * MB, address, phase)


@pytest.fixture
def trace() -> Trace:
    forward, backward = Phase.FORWARD, Phase.BACKWARD
    records = (
        record(forward, 0, 10, 0),
        record(forward, 10, 20, 1),
        record(backward, 30, 40, 1),
        record(backward, 40, 50, 2),
    )
    allocations = (
        allocation(1, 20, 1, forward),  # of the first block, kept
        allocation(2, 10, 2, forward),
        allocation(3, 2, 3, forward),  # its output
        allocation(11, 40, 4, forward),  # of the second block
        allocation(12, 5, 5, forward),  # passes by
        allocation(13, -5, 5, forward),
        allocation(14, 10, 6, forward),
        allocation(15, 3, 7, forward),  # its output
        allocation(31, 4, 8, backward),  # a gradient that stays
        allocation(32, -40, 4, backward),
        allocation(33, -10, 6, backward),
        allocation(34, -3, 7, backward),
        allocation(41, -20, 1, backward),
        allocation(42, -10, 2, backward),
        allocation(43, -2, 3, backward),
    )
    return Trace((IterationMark(0, 0, 60),), (), ("m.0", "m.1", "m.0.fc"), records, allocations)


END = MemoryFact(100 * MB, 4 * MB, 0, 0)


def test_the_recorded_peak_without_a_change(trace) -> None:
    levels = recorded_levels(END, trace, ("m.0", "m.1"))
    assert levels is not None
    assert levels.peak().peak_bytes == (100 + 20 + 10 + 2 + 40 + 10 + 3 + 4) * MB
    kept = {one.path: one.kept_bytes for one in levels.kept}
    assert kept == {"m.0": 30 * MB, "m.1": 50 * MB}


def test_the_first_block_gives_up_what_it_kept_until_its_turn(trace) -> None:
    levels = recorded_levels(END, trace, ("m.0", "m.1"))
    assert levels is not None
    assert levels.recomputed(["m.0"]).peak().peak_bytes == (100 + 2 + 40 + 10 + 3 + 4) * MB
    # All that the second block keeps is back when its backward pass begins.
    assert levels.recomputed(["m.1"]).peak().peak_bytes == levels.peak().peak_bytes
    both = levels.recomputed(["m.0", "m.1"]).peak()
    assert both.peak_bytes == (100 + 2 + 40 + 10 + 3 + 4) * MB
    assert both.gradients == 4 * MB


def test_larger_activations_grow_what_is_saved(trace) -> None:
    levels = recorded_levels(END, trace, ("m.0", "m.1"))
    assert levels is not None
    assert levels.scaled(2.0).peak().peak_bytes == (100 + 2 * 85 + 4) * MB
    assert levels.scaled(2.0).recomputed(["m.0"]).peak().peak_bytes == (100 + 2 * 55 + 4) * MB


def test_an_older_block_of_another_size_is_no_gradient(trace) -> None:
    """Of two blocks from before the recording the smaller one is as large as the gradient that takes its place."""
    allocations = (
        allocation(1, -50, 99, Phase.FORWARD),
        allocation(2, -4, 98, Phase.OTHER),
        allocation(31, 4, 8, Phase.BACKWARD),
    )
    levels = recorded_levels(END, replace(trace, allocations=allocations), ())
    assert levels is not None
    assert levels.gradients.tolist() == [4 * MB, 0, 4 * MB]


def test_without_allocations_nothing_is_known(trace) -> None:
    assert recorded_levels(END, replace(trace, allocations=()), ("m.0",)) is None


def test_smaller_weights_leave_the_peak_to_the_activations(trace) -> None:
    levels = recorded_levels(END, trace, ("m.0", "m.1"))
    assert levels is not None
    smaller = levels.with_weights(60 * MB, 0.5, 1.0)
    assert smaller.peak().peak_bytes == (100 - 60 + 20 + 10 + 2 + 40 + 10 + 3 + 0.5 * 4) * MB
    assert smaller.peak().gradients == 2 * MB


def test_what_grows_after_recomputation_grows_with_the_blocks_that_are_left(trace) -> None:
    levels = recorded_levels(END, trace, ("m.0", "m.1"))
    assert levels is not None
    both = levels.recomputed(["m.0", "m.1"])
    assert both.kept == ()
    assert both.most_activations == levels.most_activations == 85 * MB
    assert both.scaled(2.0).peak() == levels.scaled(2.0).recomputed(["m.0", "m.1"]).peak()
