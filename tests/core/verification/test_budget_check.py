"""Limits of a budget decided by rounds of known ratios."""

from __future__ import annotations

from typing import Any, cast

import pytest

from skyline.settings.budget import Budget, Limits
from skyline.trace.record import BareTimes
from skyline.trace.trial import UNCHANGED, Trial
from skyline.verification.budget_check import BudgetCheck, Outcome, judged
from skyline.verification.measure import Measured

NO_RUN = cast("Any", None)
NULL = (1.0, 1.01, 0.99, 1.0, 1.0, 1.0)


def start(*ratios: float, base_ms: float = 100.0, peak_bytes: int | None = 10**9) -> Measured:
    trial = Trial(UNCHANGED, BareTimes((), (), (), ()), ratios, NULL, peak_bytes)
    return Measured(trial, NO_RUN, NO_RUN, base_ms, None)


SLOW = start(1.1, 1.11, 1.09, 1.1, 1.1, 1.12)
EQUAL = start(1.0, 1.01, 0.99, 1.0, 1.0, 0.98)
SCATTERED = start(0.9, 1.2, 0.95, 1.15, 1.0, 1.1)


def outcome(found: list[Measured], limits: Limits, batch_size: int | None = 50) -> Outcome:
    (only,) = judged(found, limits, batch_size)
    return only.outcome


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([EQUAL], Outcome.WITHIN),
        ([SLOW], Outcome.INCONCLUSIVE),
        ([SLOW, SLOW], Outcome.OVER),
        ([SLOW, EQUAL], Outcome.INCONCLUSIVE),
        ([SLOW, EQUAL, EQUAL], Outcome.INCONCLUSIVE),
        ([SCATTERED], Outcome.INCONCLUSIVE),
    ],
)
def test_a_slowdown_counts_once_two_starts_show_it(found: list[Measured], expected: Outcome) -> None:
    assert outcome(found, Limits(slower="5%")) is expected


def test_times_and_throughput_are_those_of_the_script_not_of_its_base() -> None:
    """A step takes 110 ms, for 50 samples."""
    assert outcome([SLOW, SLOW], Limits(iteration_ms=120)) is Outcome.WITHIN
    assert outcome([SLOW, SLOW], Limits(iteration_ms=105)) is Outcome.OVER
    assert outcome([SLOW, SLOW], Limits(samples_per_s=400)) is Outcome.WITHIN
    assert outcome([SLOW, SLOW], Limits(samples_per_s=480)) is Outcome.OVER
    (throughput,) = judged([SLOW, SLOW], Limits(samples_per_s=400), 50)
    assert throughput.measured.value == pytest.approx(50 / 0.110, rel=0.01)


def test_memory_is_decided_at_once() -> None:
    assert outcome([EQUAL], Limits(peak_mb=999)) is Outcome.OVER
    assert outcome([EQUAL], Limits(peak_mb=1000)) is Outcome.WITHIN


def test_what_was_not_measured_decides_nothing() -> None:
    assert outcome([EQUAL], Limits(samples_per_s=1), None) is Outcome.INCONCLUSIVE
    assert outcome([start(1.0, 1.0, peak_bytes=None)], Limits(peak_mb=1)) is Outcome.INCONCLUSIVE


def test_one_limit_exceeded_is_enough() -> None:
    limits = judged([EQUAL], Limits(slower="5%", peak_mb=1), None)
    ratio = limits[0].measured
    assert BudgetCheck(limits, ratio, ratio, 1.0, 6, 1, "CPU", ()).outcome is Outcome.OVER


def test_a_device_has_limits_of_its_own() -> None:
    budget = Budget(slower="5%", iteration_ms=100, cuda=Limits(iteration_ms=10))
    assert budget.limits_on("cuda") == Limits(slower="5%", iteration_ms=10)
    assert budget.limits_on("cpu") == Limits(slower="5%", iteration_ms=100)
