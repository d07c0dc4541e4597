"""Wall time beyond the typical iteration: roll-outs, evaluations, logging, checkpoints and waits for data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from skyline import units
from skyline.report.schema import WallTimeReport
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes

_LEAST_ITERATIONS = 8
_UNEVEN = 1.25
"""Ratio of the mean to the typical iteration from which on the typical one alone misleads."""
_LONG = 1.5
"""Multiple of the typical iteration from which on an iteration counts as a long one; that of SKY601."""
_LEAST_SHARE = 0.01
"""Share of the wall time from which on a cause is named."""


def wall_time_of(profile: Profile, typical_ms: float) -> WallTimeReport | None:
    """The shares of the timed iterations' wall time; None where the mean iteration is about a typical one."""
    times = profile.times
    steps = times.steps_ms
    if len(steps) < _LEAST_ITERATIONS or typical_ms <= 0 or fmean(steps) < _UNEVEN * typical_ms:
        return None
    total = sum(steps)
    typical = min(1.0, len(steps) * typical_ms / total)
    data, passes = _beyond(times.data_ms), _beyond(times.backward_ms) + _beyond(times.optimizer_ms)
    # Parts of the host's clock may exceed the iterations of a device's.
    rest = 1.0 - typical
    scale = min(1.0, rest * total / (data + passes)) if data + passes > 0 else 0.0
    found = WallTimeReport(
        iterations=len(steps),
        long_iterations=sum(step > _LONG * typical_ms for step in steps),
        mean_ms=fmean(steps),
        typical=typical,
        data=data * scale / total,
        passes=passes * scale / total,
        other=max(0.0, rest - (data + passes) * scale / total),
        throughput=_throughput(profile, times),
    )
    busy = profile.load is not None and profile.load.busy
    return found if busy else replace(found, remark=_remark(found, typical_ms))


def _beyond(parts_ms: Sequence[float]) -> float:
    """Time of a part beyond its median in each iteration."""
    usual = median(parts_ms) if parts_ms else 0.0
    return max(0.0, sum(parts_ms) - len(parts_ms) * usual)


def _throughput(profile: Profile, times: BareTimes) -> float | None:
    samples = profile.batch.samples_per_iteration or profile.batch_size
    return samples * 1e3 / fmean(times.steps_ms) if samples else None


def _remark(found: WallTimeReport, typical_ms: float) -> str:
    """One line: the mean next to the median iteration, and the shares of the wall time that make the difference."""
    rate = f", {units.format_throughput(found.throughput)}" if found.throughput is not None else ""
    causes = (("data", found.data), ("passes", found.passes), ("other", found.other))
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in causes if share >= _LEAST_SHARE)
    return (
        f"Mean iteration {units.format_ms(found.mean_ms)}{rate}: {units.format_ratio(found.mean_ms / typical_ms)} the "
        f"median, {found.long_iterations} of {found.iterations} long; {shares}"
    )
