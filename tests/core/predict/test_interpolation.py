from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.interval import Interval
from skyline.predict.batch_curve import sizes_to_show
from skyline.predict.interpolation import interpolated

AFFINE = [(8, Interval(12, 11, 13)), (16, Interval(20, 19, 21)), (32, Interval(36, 34, 38))]


def test_measured_sizes_are_read_as_measured():
    assert interpolated(AFFINE, 16) == Interval(20, 19, 21)


def test_between_two_sizes_the_value_is_on_the_line_and_as_uncertain_as_the_less_certain():
    found = interpolated(AFFINE, 24)
    assert found.value == 28
    assert (found.low, found.high) == (pytest.approx(28 * 34 / 36), pytest.approx(28 * 38 / 36))


def test_a_size_beside_the_exact_one_is_no_better_known_than_the_other_neighbour():
    """A ratio to the script's own batch size is exact there."""
    samples = [(16, Interval.exact(1.0)), (64, Interval(3.0, 1.5, 6.0))]
    found = interpolated(samples, 24)
    assert found.low == pytest.approx(found.value / 2)
    assert found.high == pytest.approx(found.value * 2)


@pytest.mark.parametrize(("size", "expected"), [(64, 68), (4, 8), (128, 132)])
def test_an_affine_quantity_is_continued(size, expected):
    found = interpolated(AFFINE, size)
    assert found.value == pytest.approx(expected)
    assert found.low < expected < found.high


def test_the_interval_widens_with_the_distance():
    widths = [
        interpolated(AFFINE, size).half_width / interpolated(AFFINE, size).value
        for size in (32, 48, 64, 128, 256)
    ]
    assert widths == sorted(widths)


def test_a_falling_measurement_is_not_continued_downwards():
    noisy = [(8, Interval(12, 11, 13)), (16, Interval(11, 10, 12))]
    assert interpolated(noisy, 64).value == 11


def test_time_never_shrinks_faster_than_the_batch():
    steep = [(8, Interval.exact(10)), (16, Interval.exact(100))]
    assert interpolated(steep, 4).value == 5


@pytest.mark.parametrize("size", [2, 4, 12, 24, 48, 512])
def test_no_size_is_better_known_than_those_it_is_read_from(size):
    wide = [(8, Interval(12, 6, 24)), (16, Interval(20, 10, 40)), (32, Interval(36, 18, 72))]
    found = interpolated(wide, size)
    assert found.low <= found.value / 2 * (1 + 1e-9)
    assert found.high >= found.value * 2 * (1 - 1e-9)


@given(
    st.floats(0, 50),
    st.floats(0.01, 10),
    st.integers(1, 512),
    st.lists(st.integers(1, 256), min_size=2, unique=True),
)
def test_any_affine_quantity_is_found_again(fixed, each, size, sizes):
    samples = [(known, Interval.exact(fixed + each * known)) for known in sorted(sizes)]
    found = interpolated(samples, size)
    assert found.value == pytest.approx(fixed + each * size, rel=1e-6)
    assert found.low <= found.value <= found.high


def test_sizes_around_a_power_of_two():
    assert sizes_to_show(16, [12]) == (4, 8, 12, 16, 24, 32, 64, 128)


def test_sizes_around_an_odd_size_keep_it_and_stay_within_the_data():
    assert sizes_to_show(12, [], largest=40) == (3, 4, 6, 8, 12, 16, 18, 24, 32)
    assert sizes_to_show(1, []) == (1, 2, 4, 8)
