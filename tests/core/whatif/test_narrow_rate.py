"""The rate of a processor in narrow products, from products that were tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.trial import SplitTrial
from skyline.whatif.cost.narrow_rate import HALF_RATE, half_rate

ROWS, INNER, COLUMNS = 1024, 512, 256
WHOLE_US = 4000.0


def tried(rank, forward_half, backward_half):
    """A trial of a processor that reaches half of its rate with such a narrowest side in each pass."""

    def times_us(half, whole_us):
        whole = INNER * COLUMNS * (1 + half / COLUMNS)
        split = rank * (INNER + COLUMNS) * (1 + half / rank)
        return whole_us, whole_us * split / whole

    passes = times_us(forward_half, WHOLE_US), times_us(backward_half, 2 * WHOLE_US)
    return SplitTrial(ROWS, INNER, COLUMNS, rank, *passes)


def test_each_pass_has_the_half_rate_of_its_own_trials(profile):
    known = replace(profile, split_trials=(tried(64, 12.0, 30.0),))
    forward, backward = (half_rate(known, 64, back=back) for back in (False, True))
    assert forward.value == pytest.approx(12.0)
    assert backward.value == pytest.approx(30.0)
    assert forward.low < forward.value < forward.high


def test_trials_of_the_nearest_narrowest_side_count(profile):
    known = replace(
        profile, split_trials=(tried(64, 10.0, 10.0), tried(64, 14.0, 10.0), tried(16, 40.0, 40.0))
    )
    assert half_rate(known, 100, back=False).value == pytest.approx(12.0)
    assert half_rate(known, 12, back=False).value == pytest.approx(40.0)
    assert half_rate(known, 64, back=False).low < 10.0
    assert half_rate(known, 64, back=False).high > 14.0


def test_a_split_product_that_is_quicker_than_its_operations_reaches_the_full_rate(profile):
    quick = replace(tried(64, 10.0, 10.0), forward_us=(WHOLE_US, 100.0))
    found = half_rate(replace(profile, split_trials=(quick,)), 64, back=False)
    assert 0 < found.value <= 1


def test_without_trials_it_is_the_constant(profile):
    assert half_rate(replace(profile, split_trials=()), 64, back=True) == HALF_RATE
