"""The time for trials: how it is divided, and what a spent one leaves."""

from __future__ import annotations

import time

from skyline.capture.trial_budget import TrialBudget


def test_other_batch_sizes_have_a_part_and_the_rest_remains() -> None:
    budget = TrialBudget(100.0, began_s=time.monotonic() - 50.0)
    assert 9.0 < budget.curve_s <= 10.0
    assert 49.0 < budget.left_s <= 50.0


def test_a_spent_budget_has_nothing_left() -> None:
    budget = TrialBudget(10.0, began_s=time.monotonic() - 20.0)
    assert budget.curve_s == budget.left_s == 0.0
