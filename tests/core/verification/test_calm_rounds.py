"""Rounds of a pair of processes that count, by the load of other programs."""

from __future__ import annotations

import pytest

from skyline.capture.turns import Round, Turn
from skyline.verification.calm_rounds import PairTimes

CALM, BUSY = 0.05, 0.8


def one_round(base_ms: float, changed_ms: float, load: float = CALM, load_of_base: float = CALM) -> Round:
    return Round(Turn(base_ms, (), load_of_base), Turn(base_ms, (), CALM), (Turn(changed_ms, (), load),))


def test_busy_rounds_do_not_count_where_enough_are_calm() -> None:
    found = PairTimes.of(
        [
            one_round(100, 110),
            one_round(100, 300, BUSY),
            one_round(100, 110),
            one_round(250, 110, CALM, BUSY),
        ],
        2,
        2,
    )
    assert (found.ratio, found.base_ms, found.calm) == (1.1, 100, 2)


def test_on_a_busy_machine_all_rounds_count() -> None:
    found = PairTimes.of([one_round(200, 220, BUSY), one_round(200, 230, BUSY), one_round(100, 110)], 2, 2)
    assert found.ratio == pytest.approx(1.1)
    assert (found.base_ms, found.calm) == (200, 1)


def test_a_round_with_slow_iterations_of_its_own_counts() -> None:
    assert PairTimes.of([one_round(100, 300), one_round(100, 100)], 2, 1).ratio == 2.0
