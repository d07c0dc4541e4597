"""Curves whose steps and knees are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skyline.interval import Interval
from skyline.sweep.curve import Faster, faster, knee, steps

VALUES = [64 * number for number in range(1, 17)]


def curve(time: Callable[[int], float], spread: float = 0.0) -> list[Interval]:
    return [Interval(time(value), time(value) * (1 - spread), time(value) * (1 + spread)) for value in VALUES]


def test_a_stair_has_its_steps_and_their_sizes() -> None:
    times = curve(lambda value: 10.0 if value <= 512 else 14.0)
    (found,) = steps(VALUES, times, measured=False)
    assert (VALUES[found.before], VALUES[found.after]) == (512, 576)
    assert found.change == pytest.approx(0.4)
    assert found.trend == pytest.approx(0.0)


def test_a_step_on_a_slope_is_what_exceeds_the_slope() -> None:
    times = curve(lambda value: value**2 * (1.0 if value <= 512 else 1.3))
    (found,) = steps(VALUES, times, measured=False)
    assert VALUES[found.after] == 576
    assert found.trend == pytest.approx((576 / 512) ** 2 - 1)
    assert found.beyond_trend == pytest.approx(0.3)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, -1.0])
def test_a_smooth_curve_has_neither(power: float) -> None:
    times = curve(lambda value: 3.0 * value**power)
    assert steps(VALUES, times, measured=False) == ()
    assert knee(VALUES, times) is None


def test_a_time_that_falls_at_once_is_a_step_too() -> None:
    times = curve(lambda value: 10.0 if value < 512 else 7.0)
    (found,) = steps(VALUES, times, measured=True)
    assert (VALUES[found.after], found.change) == (512, pytest.approx(-0.3))


def test_a_measured_step_within_the_ranges_is_none() -> None:
    times = curve(lambda value: 10.0 if value <= 512 else 11.0, spread=0.1)
    assert steps(VALUES, times, measured=True) == ()
    assert len(steps(VALUES, times, measured=False)) == 1


def test_the_knee_is_where_the_growth_begins_and_is_no_step() -> None:
    times = curve(lambda value: 10.0 * max(1.0, (value / 512) ** 2))
    found = knee(VALUES, times)
    assert found is not None
    assert VALUES[found.at] == 512
    assert found.below == pytest.approx(1.0, abs=0.02)
    assert found.above == pytest.approx(4.0, rel=0.03)
    assert steps(VALUES, times, measured=False) == ()


def test_a_gradual_turn_from_overhead_to_work_has_a_knee() -> None:
    times = curve(lambda value: 10.0 + (value / 200) ** 2.5)
    found = knee(VALUES, times)
    assert found is not None
    assert 256 <= VALUES[found.at] <= 704
    assert found.below < found.above


@pytest.mark.parametrize(("spread", "is_knee"), [(0.02, True), (0.3, False)])
def test_a_knee_within_the_ranges_of_what_ran_is_none(spread: float, is_knee: bool) -> None:
    times = curve(lambda value: 10.0 * max(1.0, (value / 512) ** 0.8), spread)
    assert knee(VALUES, times) is not None, "predicted times of one curve have alike errors"
    assert (knee(VALUES, times, range(len(VALUES))) is not None) is is_knee
    assert (knee(VALUES, times, [0, 7, 15]) is not None) is is_knee


def test_a_range_that_reaches_nothing_rules_no_power_out() -> None:
    times = curve(lambda value: 10.0 * max(1.0, (value / 512) ** 2), spread=1.0)
    assert knee(VALUES, times, range(len(VALUES))) is None


def test_a_larger_value_that_is_faster_is_named_with_all_before_it() -> None:
    values = [504, 508, 512, 516]
    times = [Interval.exact(time) for time in (12.0, 11.0, 9.0, 14.0)]
    assert faster(values, times, measured=False) == (Faster(2, 0, pytest.approx(0.25)),)
    wide = [Interval(time.value, time.value - 4, time.value + 4) for time in times]
    assert faster(values, wide, measured=True) == ()


def test_few_points_show_no_trend() -> None:
    times = [Interval.exact(time) for time in (1.0, 2.0, 9.0)]
    assert steps([1, 2, 3], times, measured=False) == ()
    assert knee([1, 2, 3], times) is None
    assert steps([0, 1, 2, 3], [*times, Interval.exact(9.0)], measured=False) == ()
