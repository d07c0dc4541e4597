"""Decides whether a script keeps its budget, by measurements in turns with its base revision."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from enum import Enum

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, ProgressCallback
from skyline.interval import Interval, bootstrap, median
from skyline.lazy_dataclass import dataclass
from skyline.settings.budget import Budget, Limits
from skyline.trace.trial import Trial
from skyline.verification.measure import Effort, Measured, measure

STARTS = 3
"""Most starts of the processes. Two processes of one script differ by a few percent for as long as they live."""
_CONFIRMED = 2
"""Starts in which a limit of time must be exceeded before it counts."""


class Outcome(Enum):
    """The outcome of a measurement for a limit."""

    WITHIN = "within"
    OVER = "over"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One limit: the key of the budget, the limit and the measured value in the unit of the key, and the outcome.

    ``slower`` is measured as the iteration time over that of the base, less one.
    """

    name: str
    limit: float
    measured: Interval
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """All limits, and the measurement that they rest on.

    ``ratio`` is the iteration time over that of the base, ``null`` the base over itself. ``device`` is the name.
    ``base_modules`` are the real paths of the modules that the base imported.
    """

    limits: tuple[LimitCheck, ...]
    ratio: Interval
    null: Interval
    base_ms: float
    rounds: int
    starts: int
    device: str
    base_modules: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Over if a limit is exceeded, else inconclusive if one is undecided, else within."""
        found = {one.outcome for one in self.limits}
        return next(
            one for one in (Outcome.OVER, Outcome.INCONCLUSIVE, Outcome.WITHIN) if one in (found or {one})
        )


def checked(
    base: CaptureRequest,
    script: CaptureRequest,
    budget: Budget,
    effort: Effort,
    *,
    progress: ProgressCallback,
    cancel: threading.Event | None = None,
    starter: Starter = start_fresh,
) -> BudgetCheck:
    """Measure ``script`` in turns with ``base`` until each limit is decided, in at most three starts of both.

    A limit of time counts as exceeded only if it is in two starts, each with its own processes. Raises the exceptions
    of ``measure``.
    """
    deadline = time.monotonic() + effort.minutes * 60
    found: list[Measured] = []
    limits: tuple[LimitCheck, ...] = ()
    while len(found) < STARTS:
        left_minutes = (deadline - time.monotonic()) / 60
        if found and left_minutes <= 0:
            break
        part = Effort(effort.rounds, max(left_minutes, 0.01), effort.turn_s)
        found.append(measure(base, script, part, words="", progress=progress, cancel=cancel, starter=starter))
        facts = found[-1].changed.facts
        sizes = facts.batch_sizes_seen
        limits = judged(found, budget.limits_on(facts.environment.device.kind), sizes[0] if sizes else None)
        if all(one.outcome is not Outcome.INCONCLUSIVE for one in limits):
            break
    trial, last = _joined(found), found[-1]
    return BudgetCheck(
        limits,
        bootstrap(trial.ratios),
        bootstrap(trial.null),
        median([one.base_ms for one in found]),
        len(trial.ratios),
        len(found),
        last.changed.facts.environment.device.name,
        last.base.facts.modules,
        tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


def judged(found: Sequence[Measured], limits: Limits, batch_size: int | None) -> tuple[LimitCheck, ...]:
    """The limits that are set, by the measurements of all starts so far. A throughput needs the batch size."""
    ratio = bootstrap(_joined(found).ratios)
    per_start = [(median(one.trial.ratios), one.base_ms) for one in found]
    checks: list[LimitCheck] = []
    if (share := limits.slower_share) is not None:
        slower = Interval(ratio.value - 1, ratio.low - 1, ratio.high - 1)
        checks.append(_upper("slower", share, slower, [one - 1 for one, _ in per_start]))
    step_ms = ratio.scaled(median([base_ms for _, base_ms in per_start]))
    if limits.iteration_ms is not None:
        own = [one * base_ms for one, base_ms in per_start]
        checks.append(_upper("iteration_ms", limits.iteration_ms, step_ms, own))
    if limits.samples_per_s is not None:
        checks.append(_throughput(found, limits.samples_per_s, step_ms, batch_size))
    if limits.peak_mb is not None:
        peaks = [one.trial.peak_bytes for one in found if one.trial.peak_bytes is not None]
        checks.append(_peak(limits.peak_mb, max(peaks, default=None)))
    return tuple(checks)


def _upper(name: str, limit: float, measured: Interval, per_start: Sequence[float]) -> LimitCheck:
    if measured.high <= limit:
        outcome = Outcome.WITHIN
    elif measured.low > limit and sum(one > limit for one in per_start) >= _CONFIRMED:
        outcome = Outcome.OVER
    else:
        outcome = Outcome.INCONCLUSIVE
    return LimitCheck(name, limit, measured, outcome)


def _throughput(
    found: Sequence[Measured], limit: float, step_ms: Interval, batch_size: int | None
) -> LimitCheck:
    if batch_size is None:
        nothing = Interval(0.0, 0.0, float("inf"))
        return LimitCheck("samples_per_s", limit, nothing, Outcome.INCONCLUSIVE)
    longest_ms = batch_size / limit * 1e3
    own = [median(one.trial.ratios) * one.base_ms for one in found]
    outcome = _upper("", longest_ms, step_ms, own).outcome
    return LimitCheck("samples_per_s", limit, step_ms.inverse(batch_size * 1e3), outcome)


def _peak(limit_mb: float, peak_bytes: int | None) -> LimitCheck:
    if peak_bytes is None:
        return LimitCheck("peak_mb", limit_mb, Interval(0.0, 0.0, float("inf")), Outcome.INCONCLUSIVE)
    measured = Interval.exact(peak_bytes / 1e6)
    return LimitCheck(
        "peak_mb", limit_mb, measured, Outcome.OVER if measured.value > limit_mb else Outcome.WITHIN
    )


def _joined(found: Sequence[Measured]) -> Trial:
    trial = found[0].trial
    for one in found[1:]:
        trial = trial.joined(one.trial)
    return trial
