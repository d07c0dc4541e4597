"""Which collective is which, and what that says about the clocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.job.alignment import align
from skyline.job.job import lateness
from skyline.job.waiting import waiting

SPANS = [(10.0, 100.0), (150.0, 260.0), (400.0, 430.0), (431.0, 470.0), (900.0, 1000.0)]


def later(spans, by):
    """The same collectives, at which this rank arrives later."""
    return [(start + wait, end) for (start, end), wait in zip(spans, by, strict=True)]


def test_ends_are_common(make_rank):
    ranks = [
        make_rank(0, SPANS),
        make_rank(1, later(SPANS, [50, 0, 10, 0, 99]), shift_us=70.0, base_us=75.0),
        make_rank(2, later(SPANS, [0, 90, 0, 3, 0]), shift_us=-4000.0, base_us=2.0),
    ]
    found = align(ranks)
    assert found.shift_us == pytest.approx([0.0, 70.0, -4000.0])
    assert found.clock_us == pytest.approx([0.0, 5.0, 4002.0])
    assert found.end_us == pytest.approx(np.array([[end for _, end in SPANS]] * 3))
    assert found.alone == ()


def test_one_end_that_is_off_moves_no_clock(make_rank):
    odd = [*SPANS[:2], (400.0, 1400.0), *SPANS[3:]]
    found = align([make_rank(0, SPANS), make_rank(1, odd, shift_us=12.0)])
    assert found.shift_us == pytest.approx([0.0, 12.0])
    assert found.residual_us == pytest.approx([0.0, 0.0])


def test_windows_that_begin_and_end_elsewhere(make_rank):
    found = align([make_rank(0, SPANS[:4]), make_rank(1, SPANS[1:], shift_us=33.0)])
    assert found.shift_us == pytest.approx([0.0, 33.0])
    assert found.instances.row.tolist() == [[1, 2, 3], [0, 1, 2]]


@pytest.mark.parametrize("first", [0, 2])
def test_steps_that_are_all_alike(make_rank, first):
    """Ends that are not quite common, in steps of one length: their numbers tell which is which."""
    chance = np.random.default_rng(5)
    steps = [(1000.0 * at, 1000.0 * at + 1000) for at in range(10)]
    spans = [(begin + 500, begin + 900) for begin, _ in steps]
    noisy = [(begin, end + chance.uniform(-90, 90)) for begin, end in spans]
    other = make_rank(1, noisy[first:], shift_us=5e6, steps=steps[first:])
    numbered = replace(other, step_number=np.arange(first, 10))
    found = align([make_rank(0, spans, steps=steps), numbered])
    assert found.instances.row.tolist() == [list(range(first, 10)), list(range(10 - first))]
    assert found.shift_us == pytest.approx([0.0, 5e6], abs=90)


def test_kinds_tell_which_is_which(make_rank):
    spans = [(100.0 * at, 100.0 * at + 50) for at in range(8)]
    kinds = ["all_reduce", "all_reduce", "all_gather"] * 3
    found = align([make_rank(0, spans, kinds=kinds[:8]), make_rank(1, spans, kinds=kinds[1:9])])
    assert found.instances.row[1].tolist() == list(range(7))
    assert found.instances.row[0].tolist() == list(range(1, 8))


def test_different_work_is_not_put_together(make_rank):
    ranks = [
        make_rank(0, SPANS, kinds=["all_reduce"] * 5),
        make_rank(1, SPANS, kinds=["all_gather"] * 5, base_us=5.0),
    ]
    found = align(ranks)
    assert len(found.instances) == 0
    assert found.alone == ("stream 20",)
    assert found.shift_us == pytest.approx([0.0, 5.0])
    assert np.isnan(found.clock_us).all()


def test_messages_between_two_ranks_are_left_aside(make_rank):
    kinds = ["all_reduce", "send", "all_reduce", "all_reduce", "all_reduce"]
    other = ["all_reduce", "recv", "all_reduce", "all_reduce", "all_reduce"]
    found = align([make_rank(0, SPANS, kinds=kinds), make_rank(1, SPANS, kinds=other)])
    assert len(found.instances) == 4
    assert set(found.instances.kind) == {"all_reduce"}


def test_streams_that_each_rank_numbers_in_its_own_way(make_rank):
    mine = ["stream 9", "stream 20", "stream 9", "stream 20", "stream 20"]
    theirs = ["stream 7", "stream 31", "stream 7", "stream 31", "stream 31"]
    found = align([make_rank(0, SPANS, channels=mine), make_rank(1, SPANS, channels=theirs, shift_us=8.0)])
    assert len(found.instances) == 5
    assert set(found.instances.channel) == {"stream 1 of 2", "stream 2 of 2"}


def test_ranks_that_meet_only_through_others(make_rank):
    """Groups 0-1 and 1-2: ranks 0 and 2 never meet, and are on one clock all the same."""
    first, second = "group a [0, 1]", "group b [1, 2]"
    between = [(start + 20, end + 25) for start, end in SPANS]
    both = [span for pair in zip(SPANS, between, strict=True) for span in pair]
    ranks = [
        make_rank(0, SPANS, channels=[first] * 5),
        make_rank(1, both, channels=[first, second] * 5, shift_us=500.0),
        make_rank(2, between, channels=[second] * 5, shift_us=-70.0),
    ]
    found = align(ranks)
    assert found.shift_us == pytest.approx([0.0, 500.0, -70.0])
    assert len(found.instances) == 10


def test_who_is_last_and_by_how_much(make_rank):
    ranks = [
        make_rank(0, SPANS),
        make_rank(1, later(SPANS, [0, 100, 20, 0, 90])),
        make_rank(2, later(SPANS, [0, 10, 25, 0, 0])),
    ]
    found = align(ranks)
    split = waiting(found)
    assert split.transfer_us == pytest.approx([90.0, 10.0, 5.0, 39.0, 10.0])
    assert split.last.tolist() == [-1, 1, 2, -1, 1]
    assert split.behind_us == pytest.approx([0.0, 95.0, 15.0, 0.0, 90.0])
    assert split.entry.tolist() == [True, False, False, False, False]
    late = lateness(found, split)
    assert [(one.last, one.of, one.behind_us) for one in late] == [(0, 4, 0.0), (2, 4, 185.0), (1, 4, 15.0)]


@st.composite
def jobs(draw, make_rank):
    """Two to four ranks that arrive at the same collectives at different times."""
    count = draw(st.integers(2, 4))
    lengths = draw(st.lists(st.integers(20, 5000), min_size=4, max_size=9))
    bounds = np.cumsum([0, *lengths]).tolist()
    spans = [(float(begin + 1), float(end)) for begin, end in pairwise(bounds)]
    waits = [[draw(st.integers(0, 15)) for _ in spans] for _ in range(count)]

    def made(clocks, shifts):
        return [
            make_rank(rank, later(spans, wait), base_us=clock, shift_us=shift)
            for rank, (wait, clock, shift) in enumerate(zip(waits, clocks, shifts, strict=True))
        ]

    return count, made


@settings(max_examples=50)
@given(st.data())
def test_clocks_change_nothing(make_rank, data):
    """Neither what the machines' clocks say nor when a trace's own clock starts moves anything but the offsets."""
    count, made = data.draw(jobs(make_rank))
    times = st.integers(-(10**12), 10**12).map(float)
    clocks = data.draw(st.lists(times, min_size=count, max_size=count))
    shifts = [float(data.draw(st.integers(-(10**6), 10**6))) for _ in range(count)]
    plain, moved = align(made([0.0] * count, [0.0] * count)), align(made(clocks, shifts))
    assert moved.instances.row.tolist() == plain.instances.row.tolist()
    assert moved.end_us - moved.end_us[0, 0] == pytest.approx(plain.end_us - plain.end_us[0, 0], abs=1e-3)
    assert moved.residual_us == pytest.approx(plain.residual_us, abs=1e-3)
    ours, theirs = waiting(moved), waiting(plain)
    assert ours.waiting_us == pytest.approx(theirs.waiting_us, abs=1e-3)
    assert ours.last.tolist() == theirs.last.tolist()
    expected = [clock - clocks[0] - (shift - shifts[0]) for clock, shift in zip(clocks, shifts, strict=True)]
    assert moved.clock_us - moved.clock_us[0] == pytest.approx(expected, abs=1e-2)
