"""The strategies of the benchmark on a table of known speed-ups."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest

from skyline.interval import Interval
from skyline.tune.search import Outcome
from skyline.tune.space import Candidate
from skyline.whatif.question import Choice

UNCHANGED = frozenset()
A, B = Choice("num_workers", "2"), Choice("fused_optimizer")
ALONE, OTHER, BOTH = frozenset({A}), frozenset({B}), frozenset({A, B})
SPEEDS = {ALONE: 1.5, OTHER: 1.1, BOTH: 1.2}
TOOK_S = {ALONE: 10.0, OTHER: 10.0, BOTH: 20.0}


def about(value: float) -> Interval:
    return Interval(value, 0.98 * value, 1.02 * value)


class Two:
    """A simulation that predicts the largest gain for both changes together."""

    def __init__(self) -> None:
        self.singles = {A: about(1.5), B: about(1.1)}

    def around(self, chosen):
        return tuple(Candidate(parts, about(1.6 if parts == BOTH else 1.3)) for parts in SPEEDS)


@pytest.fixture
def quality() -> ModuleType:
    return import_module("tune_quality")


def test_the_fastest_that_was_measured_or_the_unchanged_script(quality) -> None:
    assert quality.best_of([OTHER, ALONE], SPEEDS) == ALONE
    assert quality.best_of([], SPEEDS) == UNCHANGED
    assert quality.best_of([ALONE], {ALONE: 0.9}) == UNCHANGED
    assert quality.best_of([ALONE], {}) == UNCHANGED


def test_seconds_are_spent_in_order_and_no_more_than_there_are(quality) -> None:
    assert quality.in_order([OTHER, ALONE, BOTH], TOOK_S, SPEEDS, 25.0) == (ALONE, 20.0)
    assert quality.in_order([BOTH, ALONE], TOOK_S, SPEEDS, 25.0) == (BOTH, 20.0)
    assert quality.in_order([ALONE], TOOK_S, SPEEDS, 5.0) == (UNCHANGED, 0.0)
    draws = quality.at_random(TOOK_S, SPEEDS, 10.0)
    assert {parts for parts, _ in draws} == {ALONE, OTHER, UNCHANGED}
    assert all(spent_s <= 10.0 for _, spent_s in draws)


def test_the_search_of_the_product_runs_on_the_table(quality) -> None:
    outcomes = {parts: Outcome(about(speed), 1.0) for parts, speed in SPEEDS.items()}
    chosen, spent_s = quality.product(Two(), quality.TableTrials(outcomes, TOOK_S), 1000.0)
    assert chosen == ALONE
    assert spent_s <= 2 * sum(TOOK_S.values())
    chosen, spent_s = quality.product(Two(), quality.TableTrials(outcomes, TOOK_S), 20.0)
    assert chosen == BOTH
    assert spent_s == 20.0


@pytest.mark.parametrize(("cost", "share", "reached"), [(0.25, 0.95, 1), (0.3, 1.0, 0), (0.2, 0.94, 0)])
def test_the_goal_takes_quality_and_cost(quality, cost: float, share: float, reached: int) -> None:
    scored = (quality.Scored("exhaustive", 1.0, 1.0, ("a",)), quality.Scored("tune", cost, share, ("a",)))
    text = quality.page([quality.ScriptResult("train.py", 100.0, 20.0, 0.1, 1.5, (), scored)])
    assert f"reached on {reached} of 1 scripts" in " ".join(text.split())
