"""Limits of a budget decided by pairs of processes with known ratios."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skyline.capture.request import CaptureRequest
from skyline.capture.turns import Round, Turn
from skyline.errors import ScriptFailed
from skyline.settings.budget import Budget, Limits
from skyline.trace.record import BareTimes
from skyline.trace.trial import UNCHANGED, Trial
from skyline.verification import budget_check
from skyline.verification.budget_check import (
    BudgetCheck,
    Outcome,
    PairedStart,
    checked,
    judged,
    keeping_memory,
)
from skyline.verification.measure import Effort, Measured

NULLS = (1.0, 1.01, 0.99, 1.0, 1.0, 1.0)


def starts(*ratios: float, base_ms: float = 100.0, peak_bytes: int | None = 10**9) -> list[PairedStart]:
    return [PairedStart(ratio, base_ms, peak_bytes, NULLS) for ratio in ratios]


SLOW = starts(1.1, 1.11, 1.09, 1.1)
EQUAL = starts(1.0, 1.01, 0.99, 1.0)
SCATTERED = starts(0.9, 1.2, 0.95, 1.15)


def outcome(found: list[PairedStart], limits: Limits, batch_size: int | None = 50) -> Outcome:
    (only,) = judged(found, limits, batch_size)
    return only.outcome


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (EQUAL, Outcome.WITHIN),
        (EQUAL[:2], Outcome.INCONCLUSIVE),
        (SLOW[:2], Outcome.INCONCLUSIVE),
        (SLOW, Outcome.OVER),
        (SLOW[:2] + EQUAL[:2], Outcome.INCONCLUSIVE),
        (SCATTERED, Outcome.INCONCLUSIVE),
    ],
)
def test_a_slowdown_counts_where_pairs_of_processes_agree_on_it(
    found: list[PairedStart], expected: Outcome
) -> None:
    assert outcome(found, Limits(slower="5%")) is expected


def test_times_and_throughput_are_those_of_the_script_not_of_its_base() -> None:
    """A step takes 110 ms, for 50 samples."""
    assert outcome(SLOW, Limits(iteration_ms=120)) is Outcome.WITHIN
    assert outcome(SLOW, Limits(iteration_ms=105)) is Outcome.OVER
    assert outcome(SLOW, Limits(samples_per_s=400)) is Outcome.WITHIN
    assert outcome(SLOW, Limits(samples_per_s=480)) is Outcome.OVER
    (throughput,) = judged(SLOW, Limits(samples_per_s=400), 50)
    assert throughput.measured.value == pytest.approx(50 / 0.110, rel=0.01)
    assert outcome(SLOW[:2], Limits(samples_per_s=400)) is Outcome.INCONCLUSIVE


def test_memory_is_decided_at_once() -> None:
    assert outcome(EQUAL[:1], Limits(peak_mb=999)) is Outcome.OVER
    assert outcome(EQUAL[:1], Limits(peak_mb=1000)) is Outcome.WITHIN


def test_what_was_not_measured_decides_nothing() -> None:
    assert outcome(EQUAL, Limits(samples_per_s=1), None) is Outcome.INCONCLUSIVE
    assert outcome(starts(1.0, 1.0, 1.0, peak_bytes=None), Limits(peak_mb=1)) is Outcome.INCONCLUSIVE


def test_one_limit_exceeded_is_enough() -> None:
    limits = judged(EQUAL, Limits(slower="5%", peak_mb=1), None)
    ratio = limits[0].measured
    assert BudgetCheck(limits, ratio, ratio, 6, 1, None, "CPU", ()).outcome is Outcome.OVER


def test_a_device_has_limits_of_its_own() -> None:
    budget = Budget(slower="5%", iteration_ms=100, cuda=Limits(iteration_ms=10))
    assert budget.limits_on("cuda") == Limits(slower="5%", iteration_ms=10)
    assert budget.limits_on("cpu") == Limits(slower="5%", iteration_ms=100)


BASE, SCRIPT = CaptureRequest(script=Path("base.py")), CaptureRequest(script=Path("script.py"))
TIMES_MS = {"base": 100.0, "script": 110.0}
PEAKS_MB = {"base": 500, "script": 800}


class Pairs:
    """Takes the place of ``measure``: pairs of processes of which each second is at a handicap, by a factor."""

    def __init__(self, *handicaps: float) -> None:
        self.handicaps = list(handicaps)
        self.order: list[str] = []
        self.marked: list[bool] = []

    def __call__(
        self, first: CaptureRequest, second: CaptureRequest, effort: Effort, **options: Any
    ) -> Measured:
        assert dict(first.variables) == dict(second.variables)
        base, changed = first.script.stem, second.script.stem
        self.order.append(base)
        self.marked.append(options["marks_change"])
        ratio = TIMES_MS[changed] / TIMES_MS[base] * self.handicaps.pop(0)
        trial = Trial(UNCHANGED, BareTimes((), (), (), ()), (ratio,) * 6, NULLS, PEAKS_MB[changed] * 10**6)
        environment = SimpleNamespace(device=SimpleNamespace(kind="cpu", name="CPU"), cpu_count=2)
        facts = SimpleNamespace(environment=environment, batch_sizes_seen=(50,), modules=())
        ready: Any = SimpleNamespace(facts=facts)
        turn = Turn(TIMES_MS[base])
        rounds = (Round(turn, turn, (Turn(TIMES_MS[base] * ratio),)),) * 6
        peak_bytes = PEAKS_MB[base] * 10**6
        return Measured(trial, ready, ready, turn.typical_ms, peak_bytes, rounds=rounds)


def check(
    pairs: Pairs, monkeypatch: pytest.MonkeyPatch, budget: Budget, minutes: float = 10.0
) -> BudgetCheck:
    monkeypatch.setattr(budget_check, "measure", pairs)
    return checked(BASE, SCRIPT, budget, Effort(minutes=minutes), progress=lambda _: None)


def test_pairs_start_in_either_order_so_that_neither_side_has_an_advantage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pairs = Pairs(*[1.3] * 32)
    found = check(pairs, monkeypatch, Budget(slower="5%", iteration_ms=200, peak_mb=700))
    assert pairs.order[:4] == ["base", "script", "base", "script"]
    assert pairs.marked[:4] == [True, False, True, False]
    slower, step, peak = found.limits
    assert slower.measured.value == pytest.approx(0.1)
    assert slower.outcome is Outcome.INCONCLUSIVE
    assert step.measured.value == pytest.approx(110 * 1.3**0.5)
    assert (peak.measured.value, peak.outcome) == (800, Outcome.OVER)
    assert found.starts == 32


def test_it_stops_at_the_first_pair_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(Pairs(1.1, 1.1, 1.1, 1.1), monkeypatch, Budget(slower="50%")).starts == 4
    assert check(Pairs(1.001), monkeypatch, Budget(peak_mb=900)).starts == 1


def test_no_pair_starts_that_would_end_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 60))
    monkeypatch.setattr(budget_check, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    found = check(Pairs(*[1.0] * 32), monkeypatch, Budget(slower="5%"), minutes=6)
    assert found.starts == 2
    assert found.outcome is Outcome.INCONCLUSIVE


def test_a_failure_ends_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Pairs):
        def __call__(self, *arguments: Any, **options: Any) -> Measured:
            if self.order:
                raise ScriptFailed("out of luck")
            return super().__call__(*arguments, **options)

    with pytest.raises(ScriptFailed):
        check(Failing(1.0), monkeypatch, Budget(slower="5%"))


def test_both_sides_keep_their_memory_unless_the_user_has_set_the_allocator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MALLOC_MMAP_MAX_", raising=False)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    assert dict(keeping_memory(BASE).variables) == {"MALLOC_MMAP_MAX_": "0"}
    own = CaptureRequest(script=Path("base.py"), variables=(("MALLOC_MMAP_MAX_", "7"),))
    assert dict(keeping_memory(own).variables) == {"MALLOC_MMAP_MAX_": "7"}
