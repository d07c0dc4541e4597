from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.interval import central_range, interval_of, median


def test_median_of_odd_and_even_counts():
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5
    with pytest.raises(ValueError, match="no samples"):
        median([])


def test_few_samples_give_their_whole_range():
    assert interval_of([3, 1, 2, 5, 4]) == type(interval_of([1]))(3, 1, 5)


@pytest.mark.parametrize(("count", "low", "high"), [(6, 1, 6), (9, 2, 8), (20, 6, 15), (100, 40, 61)])
def test_order_statistics_as_in_the_tables(count, low, high):
    interval = interval_of(list(range(1, count + 1)))
    assert (interval.low, interval.high) == (low, high)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60))
def test_the_interval_holds_the_median(samples):
    interval = interval_of(samples)
    assert min(samples) <= interval.low <= interval.value <= interval.high <= max(samples)


def test_single_strays_do_not_make_samples_unsteady():
    assert central_range([1.0] * 10 + [9.0]) == 1.0
    assert central_range([1.0] * 5 + [3.0] * 5) == 3.0
