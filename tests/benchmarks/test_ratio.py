"""Ratios measured in rounds."""

from __future__ import annotations

import pytest


def test_the_median_lies_in_its_interval() -> None:
    from ratio import Ratio

    found = Ratio.of([1.00, 1.02, 0.99, 1.01, 1.30])
    assert found.value == 1.01
    assert 0.99 <= found.low <= found.value <= found.high <= 1.30
    assert found.rounds == 5


def test_the_interval_is_the_same_each_time() -> None:
    from ratio import Ratio

    samples = [1.0, 1.1, 0.9, 1.05, 0.97, 1.2]
    assert Ratio.of(samples) == Ratio.of(samples)


def test_no_rounds_is_an_error_and_not_a_figure() -> None:
    from ratio import Ratio

    with pytest.raises(ValueError, match="no rounds are left"):
        Ratio.of([])


@pytest.mark.parametrize(
    ("null", "steady"), [(1.0, True), (1.029, True), (0.971, True), (1.04, False), (0.95, False)]
)
def test_a_round_is_kept_while_its_null_is_near_one(null: float, *, steady: bool) -> None:
    from ratio import is_steady

    assert is_steady(null) is steady
