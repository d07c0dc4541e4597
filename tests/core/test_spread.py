from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.interval import (
    Interval,
    central_range,
    interval_of,
    interval_of_first,
    interval_of_series,
    median,
)


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


def test_the_interval_of_drifting_samples_contains_their_median() -> None:
    """Neighbours that are alike tell less than as many independent samples."""
    chance = random.Random(1)

    def inside(memory: float) -> float:
        hits = 0
        for _ in range(400):
            state, samples = chance.gauss(0, 1), list[float]()
            for _ in range(40):
                state = memory * state + (1 - memory**2) ** 0.5 * chance.gauss(0, 1)
                samples.append(10 + state)
            found = interval_of_series(samples)
            hits += found.low <= 10 <= found.high
        return hits / 400

    assert inside(0.0) > 0.93
    assert inside(0.8) > 0.85


def test_equal_samples_are_independent() -> None:
    assert interval_of_series([2.0] * 12) == Interval.exact(2.0)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_few_iterations_give_an_interval_that_holds_as_often(count: int) -> None:
    """The whole range of three samples holds their median in three of four cases alone."""
    chance = random.Random(count)
    found = [interval_of_series([chance.lognormvariate(0, 0.05) for _ in range(count)]) for _ in range(2000)]
    assert sum(one.low <= 1 <= one.high for one in found) > 0.93 * len(found)
    assert all(0 < one.low <= one.value <= one.high for one in found)


def test_two_iterations_far_apart_give_a_range_that_a_person_can_read() -> None:
    """Under load one iteration took 2.7 times as long as the next: the range spanned six decades."""
    found = interval_of_series([11.6, 31.2])
    assert found.value == pytest.approx(21.4)
    assert 5 < found.low < 11.6
    assert 31.2 < found.high < 80


def test_first_iterations_give_a_range_for_later_ones() -> None:
    """Later iterations differ from the first three by a factor that the scatter of these does not show."""
    chance = random.Random(3)
    statistics, shown = 0, 0
    for _ in range(2000):
        later = 100 * chance.uniform(0.82, 1.08)
        first = [100 * chance.lognormvariate(0, 0.02) for _ in range(3)]
        known, found = interval_of_series(first), interval_of_first(first)
        assert found.value == known.value
        statistics += known.low <= later <= known.high
        shown += found.low <= later <= found.high
    assert statistics < 0.6 * 2000
    assert shown > 0.9 * 2000


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 40])
def test_the_range_of_first_iterations_contains_that_of_their_scatter(count: int) -> None:
    samples = [100 + 7 * (place % 5) for place in range(count)]
    known, found = interval_of_series(samples), interval_of_first(samples)
    assert 0 < found.low < known.low
    assert found.high > known.high
    wild = interval_of_first([11.6, 31.2])
    assert wild.high / wild.low < 1.1 * (
        interval_of_series([11.6, 31.2]).high / interval_of_series([11.6, 31.2]).low
    ), "a wide scatter is hardly widened"


def test_iterations_without_time_have_no_range() -> None:
    assert interval_of_first([0.0, 0.0]) == Interval.exact(0.0)
