"""Times between values that ran: predictions whose errors are known."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import pytest

from skyline.interval import Interval
from skyline.sweep.interpolation import between_runs, interpolated
from skyline.sweep.point import Provenance, SweepPoint, TimePart

VALUES = (32, 64, 128, 192, 256)
Law = Callable[[int], float]


def calls(value: int) -> float:
    return 4.0


def products(value: int) -> float:
    return 20.0 * (value / 256) ** 2


def predicted(*laws: Law, values: tuple[int, ...] = VALUES) -> list[SweepPoint]:
    """Points with a part for each law, each within a factor of two of the truth in nine of ten cases."""

    def part(law: Law, value: int) -> TimePart:
        return TimePart(law.__name__, Interval(law(value), law(value) / 2, law(value) * 2))

    return [
        SweepPoint(
            (value,),
            Interval.exact(sum(law(value) for law in laws)),
            provenance=Provenance.PREDICTED,
            parts=tuple(part(law, value) for law in laws),
        )
        for value in values
    ]


def run(time: float, spread: float = 0.0) -> Interval:
    return Interval(time, time * (1 - spread), time * (1 + spread))


def test_a_prediction_that_is_off_by_one_factor_is_right_after_one_run() -> None:
    points = interpolated(predicted(calls), {(64,): run(6.0)})
    assert [one.iteration_ms.value for one in points] == pytest.approx([6.0] * len(VALUES))
    assert [one.provenance for one in points if one.values != (64,)] == [Provenance.INTERPOLATED] * 4
    ran = points[1]
    assert ran.provenance is Provenance.MEASURED
    assert ran.iteration_ms == run(6.0)


def test_runs_at_the_ends_tell_calls_and_arithmetic_apart() -> None:
    def truth(value: int) -> float:
        return 2 * calls(value) + 0.7 * products(value)

    ends = {(value,): run(truth(value)) for value in (VALUES[0], VALUES[-1])}
    points = interpolated(predicted(calls, products), ends)
    for one in points:
        value = one.values[0]
        assert isinstance(value, int)
        # A line between the ends is off by 25 % at 128.
        assert one.iteration_ms.value == pytest.approx(truth(value), rel=0.06)
        assert one.iteration_ms.low <= truth(value) <= one.iteration_ms.high


def test_the_ratio_that_no_kind_explains_is_a_straight_line_in_logarithms() -> None:
    points = interpolated(predicted(calls, values=(64, 128, 256)), {(64,): run(4.0), (256,): run(16.0)})
    assert points[1].iteration_ms.value == pytest.approx(sqrt(4.0 * 16.0))


def test_ranges_grow_with_the_distance_from_the_runs() -> None:
    points = interpolated(predicted(calls), {(32,): run(4.0, 0.01), (64,): run(4.0, 0.01)})
    widths = [one.iteration_ms.high / one.iteration_ms.low for one in points[1:]]
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(1.01 / 0.99)
    assert widths[1] > 1.1


def test_runs_that_disagree_with_the_prediction_widen_the_ranges() -> None:
    def width(middle: float) -> float:
        runs = {(32,): run(4.0), (128,): run(middle), (256,): run(4.0)}
        time = interpolated(predicted(calls), runs)[1].iteration_ms
        return time.high / time.low

    assert width(6.0) > 1.3 * width(4.0)


def test_without_runs_the_prediction_stays() -> None:
    points = predicted(calls)
    assert interpolated(points, {}) == tuple(points)
    assert interpolated(points, {(999,): run(1.0)}) == tuple(points)


def test_several_settings_are_distances_in_all_of_them() -> None:
    wide = [
        SweepPoint((value, other), Interval.exact(1.0), provenance=Provenance.PREDICTED)
        for value in (1, 2, 4)
        for other in (0.0, 0.5, 1.0)
    ]
    corners = {(value, other): run(2.0 * value) for value in (1, 4) for other in (0.0, 1.0)}
    (middle,) = [one for one in interpolated(wide, corners) if one.values == (2, 0.5)]
    assert middle.iteration_ms.value == pytest.approx(4.0)


def test_values_that_were_not_reached_are_read_between_measured_ones_only() -> None:
    ran = [SweepPoint((value, 1), run(time)) for value, time in ((64, 5.0), (256, 20.0))]
    found = between_runs(ran, [(32, 1), (128, 1), (512, 1), (128, 2)])
    assert [one.values for one in found] == [(128, 1)]
    assert found[0].iteration_ms.value == pytest.approx(10.0)
    assert found[0].provenance is Provenance.INTERPOLATED
    assert found[0].peak_bytes is None
    assert found[0].work is None


def test_without_any_measured_point_nothing_is_read() -> None:
    assert between_runs([], [(1,), (2,)]) == ()
