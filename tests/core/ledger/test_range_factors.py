"""Factors for ranges from verifications on this machine, and what they do to answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.ledger.ledger import Conditions, LedgerEntry, VerificationStatus, range_factors
from skyline.trace.profile import Profile
from skyline.whatif.question import Choice, Question

Make = Callable[..., LedgerEntry]


def verified(entry: Make, count: int = 20, **given: object) -> list[LedgerEntry]:
    """Predictions of 0.9 (0.85 to 0.95) of which the n-th was off by n tenths of the upper half of its range."""
    upper = math.log(0.95 / 0.9)
    return [entry(n, ratio=0.9 * math.exp(0.1 * n * upper), **given) for n in range(1, count + 1)]


def test_the_factor_holds_nine_in_ten(entry: Make, here: Conditions) -> None:
    """Of 20 the case of rank 19 = 0.9 x 21 counts."""
    assert range_factors(verified(entry), here) == {"num_workers": pytest.approx(1.9)}


def test_few_cases_other_machines_and_discarded_ones_give_none(entry: Make, here: Conditions) -> None:
    assert range_factors(verified(entry, 19), here) == {}
    assert range_factors(verified(entry), replace(here, device="Another CPU")) == {}
    discarded = [replace(one, status=VerificationStatus.DISCARDED) for one in verified(entry)]
    assert range_factors(discarded, here) == {}


def test_ranges_are_stretched_and_values_stay(profile: Profile) -> None:
    start = analyse(profile)
    both = Question(choices=(Choice("fused_optimizer"), Choice("num_workers", "1")))
    one = Question(choices=both.choices[:1])
    for question, name, factor in (
        (one, "fused_optimizer", 3.0),
        (one, "fused_optimizer", 0.5),
        (both, "fused_optimizer+num_workers", 3.0),
    ):
        before = estimate(start, question)
        after = estimate(start.with_range_factors({name: factor}), question)
        assert after.iteration_ms.value == before.iteration_ms.value
        wider = after.change_ms.high - after.change_ms.low
        assert (wider > before.change_ms.high - before.change_ms.low) is (factor > 1)
    alone = start.with_range_factors({"fused_optimizer": 3.0})
    assert estimate(alone, both).change_ms == estimate(start, both).change_ms
