"""The work next to the large product of a Kronecker layer: narrow products, copies into another order, the bias."""

from __future__ import annotations

import pytest

from skyline.interval import Interval
from skyline.whatif.cost.small_factors import (
    COPY_NS,
    INPUT_NS,
    PART,
    PRODUCT_NS,
    WEIGHT_NS,
    SmallFactor,
    added_us,
    by_size,
)

FAST = Interval.exact(1e9)
"""Plain operators take next to nothing."""
LAYER = SmallFactor(1000, 256, 64, 4)
NUMBERS = 64_000


def of(layer, threads=1, rate=FAST, end="value", *, back=False):
    return added_us(layer, threads, rate, end, back=back)


def test_a_pass_on_one_thread_by_hand():
    """Two copies, whose runs are as long as there are blocks and columns of a block, and the narrow products."""
    copies = COPY_NS[4].value + COPY_NS[16].value
    forward = NUMBERS * (PRODUCT_NS[4].value + copies) / 1e3
    assert of(LAYER) == pytest.approx(forward, rel=1e-4)
    backward = NUMBERS * (INPUT_NS[4].value + WEIGHT_NS[4].value + copies) / 1e3
    assert of(LAYER, back=True) == pytest.approx(backward, rel=1e-4)


def test_threads_divide_what_is_large_enough():
    half = 1 - PART.value / 2
    copies = COPY_NS[4].value + COPY_NS[16].value
    assert of(LAYER, threads=2) == pytest.approx(half * of(LAYER), rel=1e-4)
    # The gradient of a factor of four rows is made by one thread, that of sixteen by both.
    expected = half * (INPUT_NS[4].value + copies) + WEIGHT_NS[4].value
    assert of(LAYER, threads=2, back=True) == pytest.approx(NUMBERS * expected / 1e3, rel=1e-4)
    wide = SmallFactor(1000, 256, 64, 16)
    assert of(wide, threads=2, back=True) == pytest.approx(half * of(wide, back=True), rel=1e-4)
    small = SmallFactor(100, 256, 64, 4)
    assert of(small, threads=2) == of(small)


def test_a_copy_takes_no_less_than_a_plain_operator_and_a_bias_is_one():
    """At 1 GB/s a number takes 8 ns to be read and written, longer than any copy."""
    slow = Interval.exact(1e3)
    products = NUMBERS * PRODUCT_NS[4].value / 1e3
    plain = 8 * NUMBERS / 1e3
    assert of(LAYER, rate=slow) == pytest.approx(products + 3 * plain)
    assert of(SmallFactor(1000, 256, 64, 4, bias=False), rate=slow) == pytest.approx(products + 2 * plain)
    added = of(LAYER, rate=slow, back=True) - of(
        SmallFactor(1000, 256, 64, 4, bias=False), rate=slow, back=True
    )
    assert added == pytest.approx(plain / 2)


def test_sizes_between_those_measured_and_beyond():
    between = by_size(PRODUCT_NS, 6, "value")
    ends = PRODUCT_NS[4].value, PRODUCT_NS[8].value
    assert min(ends) <= between <= max(ends)
    assert by_size(COPY_NS, 4096, "value") == pytest.approx(COPY_NS[max(COPY_NS)].value)
    # A number of a product of 64 blocks has twice the arithmetic of one of 32.
    wide, wider = (
        SmallFactor(10, 4096, 4096, blocks, bias=False) for blocks in (max(PRODUCT_NS), 2 * max(PRODUCT_NS))
    )
    numbers = 10 * 4096
    copies = [
        sum(by_size(COPY_NS, run, "value") for run in (one.blocks, 4096 // one.blocks))
        for one in (wide, wider)
    ]
    first, second = (of(one) - numbers * each / 1e3 for one, each in zip((wide, wider), copies, strict=True))
    assert second == pytest.approx(2 * first)


def test_the_ends_of_the_range_lie_around_the_value():
    for back in (False, True):
        value, low, high = (of(LAYER, end=end, back=back) for end in ("value", "low", "high"))
        assert low < value < high
