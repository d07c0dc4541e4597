"""Conformal ranges: the quantile by hand, and its coverage on cases that set nothing."""

from __future__ import annotations

import math
import random

import pytest

from skyline.interval import Interval
from skyline.whatif.conformal import LEAST_CASES, ScoredRange, factor_of, published_factors, stretched

ONE = Interval(1.0, math.exp(-0.1), math.exp(0.2))


@pytest.mark.parametrize(
    ("measured", "score"), [(1.0, 0.0), (math.exp(0.1), 0.5), (math.exp(-0.1), 1.0), (math.exp(0.6), 3.0)]
)
def test_a_score_is_the_error_over_its_half_of_the_range(measured, score):
    assert ScoredRange(ONE, measured).score == pytest.approx(score)


def test_the_rank_is_corrected_for_the_number_of_cases():
    """Of 20 cases with scores 1 to 20 rank 19 of (20 + 1) x 0.9 = 18.9 counts; of 29 rank 27."""
    for count, rank in ((20, 19), (29, 27)):
        cases = [ScoredRange(ONE, math.exp(0.2 * score)) for score in range(1, count + 1)]
        assert factor_of(cases) == pytest.approx(rank)


def test_few_cases_leave_the_modelled_range():
    cases = [ScoredRange(ONE, 1.0)] * int(LEAST_CASES.value)
    assert factor_of(cases) is not None
    assert factor_of(cases[1:]) is None
    assert factor_of(cases, coverage=0.99) is None


def test_a_range_without_width_counts_as_two_per_cent_each_way():
    assert ScoredRange(Interval.exact(1.0), math.exp(0.04)).score == pytest.approx(2.0)
    wide = stretched(Interval.exact(2.0), 3.0)
    assert (wide.low, wide.value, wide.high) == pytest.approx((2 * math.exp(-0.06), 2.0, 2 * math.exp(0.06)))


def test_both_halves_are_stretched_alike():
    wide = stretched(ONE, 2.0)
    assert (wide.low, wide.high) == pytest.approx((math.exp(-0.2), math.exp(0.4)))


def test_cases_that_set_nothing_are_covered():
    """300 splits of 40 cases and one more: errors three times as wide as modelled, with heavy tails."""
    chance = random.Random(0)

    def drawn() -> ScoredRange:
        return ScoredRange(ONE, math.exp(0.3 * chance.gauss(0, 1) * chance.choice((0.5, 1, 2))))

    held = 0
    for _ in range(300):
        factor = factor_of([drawn() for _ in range(40)])
        one = drawn()
        wide = stretched(one.predicted, factor)
        held += wide.low <= one.measured <= wide.high
    assert 0.85 <= held / 300 <= 0.96


def test_factors_of_the_published_pairs_are_positive():
    assert all(factor > 0 for factor in published_factors().values())
