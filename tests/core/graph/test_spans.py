from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyline.graph.spans import merged

STRETCHES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8)


def spans(stretches):
    begin = np.array([begin for begin, _ in stretches], float)
    return merged(begin, begin + np.array([length for _, length in stretches], float))


def moments(stretches):
    return {moment for begin, length in stretches for moment in range(begin, begin + length)}


@given(STRETCHES, STRETCHES, st.integers(0, 50), st.integers(0, 50))
def test_as_sets_of_moments(first, second, low, high):
    ours, theirs = spans(first), spans(second)
    assert ours.total_us == len(moments(first))
    assert ours.together(theirs).total_us == len(moments(first) | moments(second))
    assert ours.shared(theirs).total_us == len(moments(first) & moments(second))
    low, high = min(low, high), max(low, high)
    assert ours.cut(low, high).total_us == len(moments(first) & set(range(low, high)))


@given(STRETCHES)
def test_stretches_are_apart_and_in_order(stretches):
    found = spans(stretches)
    assert (found.end_us > found.begin_us).all()
    assert (found.begin_us[1:] > found.end_us[:-1]).all()
