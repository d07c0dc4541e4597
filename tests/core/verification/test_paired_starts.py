"""Decisions from simulated pairs of processes: how often a slowdown is caught, and how often a null alarms."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import pytest

from skyline.settings.budget import Limits
from skyline.verification import paired_starts
from skyline.verification.budget_check import Outcome, PairedStart, judged
from skyline.verification.paired_starts import MOST_PAIRS, mean_ratio, scatter

LIMITS = Limits(slower="5%")
Luck = Callable[[random.Random], float]
"""The log ratio of a pair of processes of the same script."""


def decision(slower: float, luck: Luck, chance: random.Random, most: int = MOST_PAIRS) -> Outcome:
    """The outcome of one check, pair after pair, as ``checked`` decides."""
    pairs: list[PairedStart] = []
    outcome = Outcome.INCONCLUSIVE
    while len(pairs) < most and outcome is Outcome.INCONCLUSIVE:
        pairs.append(PairedStart((1 + slower) * math.exp(luck(chance)), 100.0, None))
        ((outcome),) = (one.outcome for one in judged(pairs, LIMITS, None))
    return outcome


def counted(slower: float, luck: Luck, checks: int = 600) -> Counter[Outcome]:
    chance = random.Random(1)
    return Counter(decision(slower, luck, chance) for _ in range(checks))


def normal(deviation: float) -> Luck:
    return lambda chance: chance.gauss(0, deviation)


def test_the_quantiles_are_those_of_the_t_distribution() -> None:
    from scipy import stats  # takes a second, which the workers without this test save

    for pairs, quantile in paired_starts._QUANTILES.items():
        assert quantile == round(float(stats.t.ppf(0.99, pairs - 1)), 3)


@pytest.mark.parametrize("deviation", [0.02, 0.06])
def test_ten_per_cent_are_caught_in_nineteen_of_twenty_checks(deviation: float) -> None:
    found = counted(0.10, normal(deviation))
    assert found[Outcome.OVER] >= 0.95 * found.total()


@pytest.mark.parametrize("deviation", [0.02, 0.06, 0.2])
def test_an_unchanged_script_alarms_in_one_of_twenty_checks_at_most(deviation: float) -> None:
    found = counted(0.0, normal(deviation), checks=300)
    assert found[Outcome.OVER] <= 0.05 * found.total()


@pytest.mark.parametrize("slower", [0.0, 0.10])
def test_processes_of_two_kinds_do_not_break_the_decision(slower: float) -> None:
    """Each process is slower by 6 % or not, by chance, as with memory that is returned to the system or not."""

    def luck(chance: random.Random) -> float:
        return 0.06 * (chance.randrange(2) - chance.randrange(2)) + chance.gauss(0, 0.02)

    found = counted(slower, luck)
    right = Outcome.OVER if slower else Outcome.WITHIN
    assert found[right] >= 0.95 * found.total()


@pytest.mark.parametrize("deviation", [0.01, 0.05])
def test_a_script_at_its_limit_alarms_in_one_of_twenty_checks_at_most(deviation: float) -> None:
    found = counted(0.05, normal(deviation))
    assert found[Outcome.OVER] <= 0.05 * found.total() + 2 * math.sqrt(0.05 * 0.95 * found.total())
    assert found[Outcome.WITHIN] <= 0.05 * found.total() + 2 * math.sqrt(0.05 * 0.95 * found.total())


def test_pairs_that_scatter_too_much_decide_nothing() -> None:
    found = counted(0.10, normal(0.3), checks=200)
    assert found[Outcome.INCONCLUSIVE] > 0.8 * found.total()
    assert found[Outcome.WITHIN] < 0.05 * found.total()


def test_pairs_count_in_groups() -> None:
    assert mean_ratio([1.1] * 3).ends == (pytest.approx(1.1), 0.0, math.inf)
    four = [1.1, 1.2, 1.1, 1.2]
    assert mean_ratio([*four, 9.0]) == mean_ratio(four)
    assert mean_ratio([*four, 1.1, 1.2]).half_width < mean_ratio(four).half_width


def test_the_scatter_is_that_of_one_pair() -> None:
    assert scatter([1.0]) is None
    assert scatter([1.0, math.e]) == pytest.approx(math.sqrt(0.5))
