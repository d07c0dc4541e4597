from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.interval import Interval
from skyline.report.schema import ProfileReport
from skyline_tui.scale import Axis, BarPoint, CurveScale, nearest_usual, scale_of, usual_sizes


def affine(*sizes: int, fixed_ms: float = 30.0, per_sample_ms: float = 4.75) -> CurveScale:
    places = tuple(BarPoint(n, fixed_ms + per_sample_ms * n, n, 4e8 + 47e6 * n, n > 96) for n in sizes)
    return CurveScale(places)


SCALE = affine(8, 16, 32, 64, 96, 128)


@pytest.mark.parametrize("batch_size", [8, 9, 20, 32, 50, 100, 128])
def test_both_bars_lead_back_to_the_batch_size_they_show(batch_size: int) -> None:
    place = SCALE.at(batch_size)
    assert SCALE.batch_size_for_throughput(place.throughput) == batch_size
    assert SCALE.batch_size_for_memory(place.memory_bytes) == batch_size


def test_between_points_time_is_a_straight_line_and_throughput_follows_from_it() -> None:
    assert SCALE.at(48).iteration_ms == pytest.approx(30.0 + 4.75 * 48)
    assert SCALE.at(48).throughput == pytest.approx(48_000 / (30.0 + 4.75 * 48))


@pytest.mark.parametrize(("batch_size", "end"), [(1, 8), (8, 8), (128, 128), (4096, 128)])
def test_outside_of_the_curve_its_nearer_end_counts(batch_size: int, end: int) -> None:
    assert SCALE.at(batch_size).batch_size == end


def test_the_ends_of_the_bars_are_the_ends_of_the_curve() -> None:
    assert SCALE.batch_size_for_throughput(0.0) == 8
    assert SCALE.batch_size_for_memory(0.0) == 8
    assert SCALE.batch_size_for_throughput(SCALE.throughput.top) == 128
    assert SCALE.batch_size_for_memory(SCALE.memory.top * 10) == 128


def test_of_two_batch_sizes_with_the_same_throughput_the_smaller_is_meant() -> None:
    places = (BarPoint(8, 100, 8, 1e9), BarPoint(16, 100, 16, 2e9), BarPoint(32, 300, 32, 4e9))
    dips = CurveScale(places)
    assert dips.batch_size_for_throughput(120.0) == 12
    assert dips.batch_size_for_throughput(160.0) == 16
    assert dips.batch_size_for_throughput(500.0) == 16


def test_micro_batches_count_as_the_samples_they_are() -> None:
    scale = CurveScale((BarPoint(4, 100, 16, 1e9), BarPoint(8, 180, 32, 2e9)))
    assert scale.at(6).samples == 24
    assert scale.at(6).throughput == pytest.approx(24_000 / 140)


def test_under_whatifs_the_pointer_reads_the_changed_curve_from_end_to_end() -> None:
    faster = SCALE.under(0.5, 2.0)
    assert faster.at(32).throughput == pytest.approx(2 * SCALE.at(32).throughput)
    assert faster.batch_size_for_memory(SCALE.at(64).memory_bytes) < 64
    assert faster.throughput.top == pytest.approx(2 * SCALE.throughput.top)
    assert faster.memory.bottom == pytest.approx(2 * SCALE.memory.bottom)
    for place in (0.0, 0.2, 0.5, 0.9, 1.0):
        for axis, now in ((faster.throughput, SCALE.throughput), (faster.memory, SCALE.memory)):
            assert axis.fraction(axis.value(place)) == pytest.approx(place)
            assert axis.value(place) > now.value(place)


def test_the_trusted_range_ends_where_extrapolation_begins() -> None:
    assert SCALE.trusted_up_to == 96
    assert affine(8, 16).trusted_up_to is None


@given(st.lists(st.integers(1, 4096), min_size=2, max_size=8, unique=True), st.floats(0, 1))
def test_a_place_on_a_bar_is_a_batch_size_of_the_curve_and_grows_with_it(
    sizes: list[int], fraction: float
) -> None:
    scale = affine(*sorted(sizes))
    found = scale.batch_size_for_memory(scale.memory.value(fraction))
    assert scale.smallest <= found <= scale.largest
    assert found <= scale.batch_size_for_memory(scale.memory.value(min(fraction + 0.1, 1.0)))


def test_fewer_than_two_points_make_no_scale(profile_of_script: ProfileReport) -> None:
    assert scale_of(profile_of_script.curve[:1]) is None
    assert scale_of(()) is None


def test_the_ends_of_both_bars_are_the_lowest_and_the_highest_value(profile_of_script: ProfileReport) -> None:
    scale = scale_of(profile_of_script.curve)
    assert scale is not None
    rates = [point.throughput.value for point in profile_of_script.curve]
    peaks = [point.peak_bytes.value for point in profile_of_script.curve]
    assert (scale.throughput.bottom, scale.throughput.top) == pytest.approx((min(rates), max(rates)))
    assert scale.memory == Axis(min(peaks), max(peaks))


def test_the_best_in_the_middle_is_the_right_end() -> None:
    places = (BarPoint(8, 100, 8, 1e9), BarPoint(32, 200, 32, 2e9), BarPoint(128, 1200, 128, 4e9))
    assert CurveScale(places).usual_for_throughput(CurveScale(places).throughput.value(1.0)) == 32


def test_points_are_sorted(profile_of_script: ProfileReport) -> None:
    scale = scale_of(profile_of_script.curve[::-1])
    assert scale is not None
    assert [place.batch_size for place in scale.places] == [8, 16, 32, 64, 96, 128, 192]


def test_a_flat_curve_is_live_from_end_to_end(profile_of_script: ProfileReport) -> None:
    curve = tuple(
        replace(point, peak_bytes=Interval.exact(27.3e6 + point.batch_size))
        for point in profile_of_script.curve
    )
    scale = scale_of(curve)
    assert scale is not None
    assert (scale.memory.fraction(27.3e6 + 8), scale.memory.fraction(27.3e6 + 192)) == (0, 1)
    assert scale.batch_size_for_memory(scale.memory.value(0.5)) == 100
    assert scale.usual_for_memory(scale.memory.value(0.5)) == 96


def test_constant_memory_is_nothing_to_move_along(profile_of_script: ProfileReport) -> None:
    curve = tuple(replace(point, peak_bytes=Interval.exact(1e9)) for point in profile_of_script.curve)
    scale = scale_of(curve)
    assert scale is not None
    assert scale.memory.constant
    assert scale.memory.fraction(1e9) == 1.0


def test_sizes_that_people_use() -> None:
    known = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128]
    assert list(usual_sizes(130)) == known
    assert list(usual_sizes(5)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("at", "also", "found"),
    [
        (21, (), 20),
        (18, (), 16),  # as near to 20: the smaller
        (33, (), 32),
        (35, (35,), 35),
        (34, (35,), 35),
        (61, (), 64),
        (3, (), 8),  # below the curve
        (99, (100,), 100),
        (90, (), 80),  # 96 is beyond its end
    ],
)
def test_a_pointer_rests_at_the_nearest_of_them(at: int, also: tuple[int, ...], found: int) -> None:
    assert nearest_usual(at, 8, 100 if 100 in also else 95, also) == found


@given(st.lists(st.integers(1, 4096), min_size=2, max_size=8, unique=True), st.integers(1, 4096))
def test_the_whole_track_is_live_and_rises(sizes: list[int], own: int) -> None:
    scale = CurveScale(affine(*sorted(sizes)).places, own)
    steps = [step / 40 for step in range(41)]
    for axis, read in (
        (scale.throughput, scale.usual_for_throughput),
        (scale.memory, scale.usual_for_memory),
    ):
        found = [read(axis.value(step)) for step in steps]
        assert found == sorted(found)
        assert (found[0], found[-1]) == (min(sizes), max(sizes))
        usual = {*usual_sizes(4096), min(sizes), max(sizes), own}
        assert set(found) <= usual
