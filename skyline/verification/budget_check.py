"""Decides whether a script stays within its budget, by pairs of processes of the script and of its base in turns."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from skyline.capture.process import Starter, start_fresh
from skyline.capture.request import CaptureRequest, ProgressCallback
from skyline.interval import Interval, bootstrap
from skyline.lazy_dataclass import dataclass
from skyline.settings.budget import Budget, Limits
from skyline.verification.calm_rounds import PairTimes
from skyline.verification.measure import Effort, Measured, measure
from skyline.verification.paired_starts import MOST_PAIRS, mean_ratio, scatter
from skyline.whatif.catalogue.host.keep_memory import VARIABLES

_LEAST_MINUTES = 0.01
_TURN_S = 0.35
"""Length of a turn, shorter than in ``verify``: a load that comes in bursts of a second leaves calm rounds in
between."""
_MOST_ROUNDS = 2
"""Factor on the number of rounds of a pair on a busy machine."""
_UNKNOWN = Interval(0.0, 0.0, math.inf)


class Outcome(Enum):
    """The outcome of the measurement for a limit."""

    WITHIN = "within"
    OVER = "over"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """One limit: the key of the budget, the limit and the measured value in the key's unit, and the outcome.

    The measured value of ``slower`` is the ratio of iteration times to the base, minus one.
    """

    name: str
    limit: float
    measured: Interval
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class PairedStart:
    """One pair of processes: the ratio of the script's iteration time to the base's, and both peaks of live memory.

    ``nulls`` compare one of the processes with itself, round by round.
    """

    ratio: float
    base_ms: float
    peak_bytes: int | None
    nulls: tuple[float, ...] = ()

    @classmethod
    def of(cls, measured: Measured, wanted: int, *, swapped: bool = False) -> PairedStart:
        """The pair of a measurement. ``swapped`` if the script was measured as the base, and the base as the change."""
        nulls, cores = measured.trial.null, measured.base.facts.environment.cpu_count
        times = PairTimes.of(measured.rounds, cores, wanted)
        if not swapped:
            return cls(times.ratio, times.base_ms, measured.trial.peak_bytes, nulls)
        return cls(1 / times.ratio, times.base_ms * times.ratio, measured.base_peak_bytes, nulls)

    @property
    def script_ms(self) -> float:
        """The script's iteration time."""
        return self.ratio * self.base_ms


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """All limits, and the underlying measurement.

    ``ratio`` is the ratio of iteration times to the base, ``null`` the ratio of a script to itself in the
    same rounds. ``scatter`` is the standard deviation of the pairs' ratios, None for one pair. ``device`` is
    the device's name. ``base_modules`` are the real paths of the modules that the base imported.
    """

    limits: tuple[LimitCheck, ...]
    ratio: Interval
    null: Interval
    rounds: int
    starts: int
    scatter: float | None
    device: str
    base_modules: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The joint outcome: over if a limit is exceeded, else inconclusive if one is undecided, else within."""
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
    starter: Starter = start_fresh,
) -> BudgetCheck:
    """Measure ``script`` in turns with ``base``, pair after pair of processes, until each limit is decided.

    A pair ends after as many calm rounds as ``effort`` has, or after twice as many rounds. Every second pair starts in
    the other order. A pair that would probably end after the minutes of ``effort`` is not started, except for the
    first. Raises the exceptions of ``measure``.
    """
    base, script = keeping_memory(base), keeping_memory(script)
    end = time.monotonic() + effort.minutes * 60
    found: list[Measured] = []
    pairs: list[PairedStart] = []
    limits: tuple[LimitCheck, ...] = ()
    longest_s, cores = 0.0, os.cpu_count() or 1
    while len(pairs) < MOST_PAIRS and time.monotonic() + longest_s < end:
        started = time.monotonic()
        swapped = len(pairs) % 2 == 1
        left_minutes = max((end - started) / 60, _LEAST_MINUTES)
        measured = measure(
            *((script, base) if swapped else (base, script)),
            Effort(effort.rounds * _MOST_ROUNDS, left_minutes, min(effort.turn_s, _TURN_S)),
            progress=progress,
            starter=starter,
            with_null=False,
            marks_change=not swapped,
            enough=lambda done: PairTimes.of(done, cores, effort.rounds).calm >= effort.rounds,
        )
        longest_s = max(longest_s, time.monotonic() - started)
        found.append(measured)
        pairs.append(PairedStart.of(measured, effort.rounds, swapped=swapped))
        facts = found[0].changed.facts
        sizes = facts.batch_sizes_seen
        limits = judged(pairs, budget.limits_on(facts.environment.device.kind), sizes[0] if sizes else None)
        if all(one.outcome is not Outcome.INCONCLUSIVE for one in limits):
            break
    first, ratios = found[0], [one.ratio for one in pairs]
    nulls = [null for one in pairs for null in one.nulls]
    return BudgetCheck(
        limits,
        mean_ratio(ratios),
        bootstrap(nulls),
        len(nulls),
        len(pairs),
        scatter(ratios),
        first.changed.facts.environment.device.name,
        first.base.facts.modules,
        tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


def keeping_memory(request: CaptureRequest) -> CaptureRequest:
    """The request with an allocator that returns no memory to the system, unless the user has set it.

    glibc may return memory at the end of its heap and request it again in the next iteration, depending on
    what lies at that end. This costs up to a third of an iteration, by chance, and differs between processes
    (``benchmarks/process_pairs.py``, ``fresh_processes.py``). Other allocators do not read these variables.
    """
    given = dict(request.variables)
    settings = (one.split("=") for one in VARIABLES.split())
    kept = {name: value for name, value in settings if name not in os.environ}
    return replace(request, variables=tuple({**kept, **given}.items()))


def judged(pairs: Sequence[PairedStart], limits: Limits, batch_size: int | None) -> tuple[LimitCheck, ...]:
    """The checks of all limits that are set, from the pairs so far. A throughput needs the batch size."""
    ratio, step_ms = mean_ratio([one.ratio for one in pairs]), mean_ratio([one.script_ms for one in pairs])
    checks: list[LimitCheck] = []
    if (share := limits.slower_share) is not None:
        slower = ratio.plus(Interval.exact(-1.0))
        checks.append(_upper("slower", share, slower))
    if limits.iteration_ms is not None:
        checks.append(_upper("iteration_ms", limits.iteration_ms, step_ms))
    if limits.samples_per_s is not None:
        checks.append(_throughput(limits.samples_per_s, step_ms, batch_size))
    if limits.peak_mb is not None:
        peaks = [one.peak_bytes for one in pairs if one.peak_bytes is not None]
        checks.append(_peak(limits.peak_mb, max(peaks, default=None)))
    return tuple(checks)


def _upper(name: str, limit: float, measured: Interval) -> LimitCheck:
    if measured.high <= limit:
        outcome = Outcome.WITHIN
    elif measured.low > limit:
        outcome = Outcome.OVER
    else:
        outcome = Outcome.INCONCLUSIVE
    return LimitCheck(name, limit, measured, outcome)


def _throughput(limit: float, step_ms: Interval, batch_size: int | None) -> LimitCheck:
    if batch_size is None:
        return LimitCheck("samples_per_s", limit, _UNKNOWN, Outcome.INCONCLUSIVE)
    outcome = _upper("", batch_size / limit * 1e3, step_ms).outcome
    rate = step_ms.inverse(batch_size * 1e3)
    if math.isinf(step_ms.high):
        rate = Interval(rate.value, 0.0, math.inf)
    return LimitCheck("samples_per_s", limit, rate, outcome)


def _peak(limit_mb: float, peak_bytes: int | None) -> LimitCheck:
    if peak_bytes is None:
        return LimitCheck("peak_mb", limit_mb, _UNKNOWN, Outcome.INCONCLUSIVE)
    measured = Interval.exact(peak_bytes / 1e6)
    return LimitCheck(
        "peak_mb", limit_mb, measured, Outcome.OVER if measured.value > limit_mb else Outcome.WITHIN
    )
