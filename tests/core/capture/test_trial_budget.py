"""The time from the first figures to the end: how it is divided, and what a spent one leaves."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from skyline.capture import trial_budget
from skyline.capture.trial_budget import TrialBudget


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(trial_budget, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    return made


def test_what_would_end_too_late_does_not_fit(clock: SimpleNamespace) -> None:
    budget = TrialBudget(20.0)
    clock.now_s += 15.0
    assert budget.left_s == 5.0
    assert budget.fits(5.0)
    assert not budget.fits(5.1)
    assert not budget.without(3.0).fits(2.1)
    clock.now_s += 15.0
    assert budget.left_s == 0.0
    assert not budget.fits(0.0)


def test_further_iterations_have_a_part_of_the_budget(clock: SimpleNamespace) -> None:
    assert TrialBudget(20.0).for_iterations(4.0, 0.1).left_s == 6.0
    assert TrialBudget(5.0).for_iterations(4.0, 0.1).left_s == 4.0
    assert TrialBudget(0.0).for_iterations(4.0, 0.1).left_s == math.inf, (
        "no trials: the script is measured as ever"
    )
    assert TrialBudget(20.0).for_iterations(4.0, 0.8).left_s == pytest.approx(8.8), (
        "slow ones have more of it"
    )
    assert TrialBudget(20.0).for_iterations(4.0, 3.0).left_s == 10.0, "but not all"
    budget = TrialBudget(20.0)
    clock.now_s += 2.0
    assert budget.for_iterations(4.0, 0.1).left_s == 4.0, "they count from the first figures too"
