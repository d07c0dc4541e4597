from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.interval import Interval
from skyline.report.schema import ProfileReport
from skyline_tui.scale import Axis, Place, Scale, scale_of


def affine(*sizes: int, fixed_ms: float = 30.0, per_sample_ms: float = 4.75) -> Scale:
    places = tuple(Place(n, fixed_ms + per_sample_ms * n, n, 4e8 + 47e6 * n, n > 96) for n in sizes)
    return Scale(places, Axis(0, max(place.throughput for place in places)), Axis(0, places[-1].memory_bytes))


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
    places = (Place(8, 100, 8, 1e9), Place(16, 100, 16, 2e9), Place(32, 300, 32, 4e9))
    dips = Scale(places, Axis(0, 160.0), Axis(0, 4e9))
    assert dips.batch_size_for_throughput(120.0) == 12
    assert dips.batch_size_for_throughput(160.0) == 16
    assert dips.batch_size_for_throughput(500.0) == 16


def test_micro_batches_count_as_the_samples_they_are() -> None:
    scale = Scale((Place(4, 100, 16, 1e9), Place(8, 180, 32, 2e9)), Axis(0, 180.0), Axis(0, 2e9))
    assert scale.at(6).samples == 24
    assert scale.at(6).throughput == pytest.approx(24_000 / 140)


def test_under_whatifs_the_pointer_reads_the_changed_curve_and_the_ends_stay() -> None:
    faster = SCALE.under(0.5, 2.0)
    assert faster.at(32).throughput == pytest.approx(2 * SCALE.at(32).throughput)
    assert faster.batch_size_for_memory(SCALE.at(64).memory_bytes) < 64
    assert faster.throughput.top == SCALE.throughput.top


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
    assert scale_of(replace(profile_of_script, curve=profile_of_script.curve[:1])) is None
    assert scale_of(replace(profile_of_script, curve=())) is None


def test_the_memory_bar_ends_at_the_capacity_where_that_is_near(profile_of_script: ProfileReport) -> None:
    scale = scale_of(profile_of_script)
    assert scale is not None
    assert scale.memory == Axis(0.0, 24e9, top_is_capacity=True)


@pytest.mark.parametrize("capacity", [None, 250_000_000_000])
def test_else_at_the_largest_point(profile_of_script: ProfileReport, capacity: int | None) -> None:
    memory = replace(profile_of_script.memory, capacity_bytes=capacity)
    scale = scale_of(replace(profile_of_script, memory=memory))
    assert scale is not None
    assert not scale.memory.top_is_capacity
    assert scale.memory.top == max(point.peak_bytes.value for point in profile_of_script.curve)


def test_points_are_sorted(profile_of_script: ProfileReport) -> None:
    scale = scale_of(replace(profile_of_script, curve=profile_of_script.curve[::-1]))
    assert scale is not None
    assert [place.batch_size for place in scale.places] == [8, 16, 32, 64, 96, 128, 192]


def test_a_flat_curve_gets_a_bar_that_begins_at_its_lowest_point(profile_of_script: ProfileReport) -> None:
    curve = tuple(
        replace(point, peak_bytes=Interval.exact(27.3e6 + point.batch_size))
        for point in profile_of_script.curve
    )
    scale = scale_of(replace(profile_of_script, curve=curve))
    assert scale is not None
    assert (scale.memory.cut, scale.memory.fraction(27.3e6 + 8), scale.memory.fraction(27.3e6 + 192)) == (
        True,
        0,
        1,
    )
    assert scale.batch_size_for_memory(scale.memory.value(0.5)) == 100


def test_constant_memory_is_nothing_to_move_along(profile_of_script: ProfileReport) -> None:
    curve = tuple(replace(point, peak_bytes=Interval.exact(1e9)) for point in profile_of_script.curve)
    scale = scale_of(replace(profile_of_script, curve=curve))
    assert scale is not None
    assert scale.memory.constant
    assert scale.memory.fraction(1e9) == 1.0
