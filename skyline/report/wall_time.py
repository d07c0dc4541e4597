"""Wall time beyond the typical iteration: roll-outs, evaluations, logging, checkpoints and waits for data."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from skyline import units
from skyline.report.schema import ProfileReport, WallTimeReport
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes

_LEAST_ITERATIONS = 8
_UNEVEN = 1.25
"""Ratio of the mean to the typical iteration from which on the typical one alone misleads."""
_LONG = 1.5
"""Multiple of the typical iteration from which on an iteration counts as a long one; that of SKY601."""


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
    return WallTimeReport(
        iterations=len(steps),
        long_iterations=sum(step > _LONG * typical_ms for step in steps),
        mean_ms=fmean(steps),
        typical=typical,
        data=data * scale / total,
        passes=passes * scale / total,
        other=max(0.0, rest - (data + passes) * scale / total),
        throughput=_throughput(profile, times),
    )


def _beyond(parts_ms: Sequence[float]) -> float:
    """Time of a part beyond its median in each iteration."""
    usual = median(parts_ms) if parts_ms else 0.0
    return max(0.0, sum(parts_ms) - len(parts_ms) * usual)


def _throughput(profile: Profile, times: BareTimes) -> float | None:
    samples = profile.batch.samples_per_iteration or profile.batch_size
    return samples * 1e3 / fmean(times.steps_ms) if samples else None


def wall_time_remark(report: ProfileReport) -> str:
    """The mean next to the typical iteration, with the causes of the difference; empty where there is hardly any.

    Empty, too, where the machine was busy: then other programs made the long iterations.
    """
    found = report.wall_time
    if found is None or report.machine_busy:
        return ""
    ratio = units.format_ratio(found.mean_ms / report.iteration_ms.value).removesuffix("x")
    rate = f", {units.format_throughput(found.throughput)}" if found.throughput is not None else ""
    causes = (
        ("typical iterations", found.typical),
        ("longer waits for data", found.data),
        ("longer passes and updates", found.passes),
        ("other work of the script, such as roll-outs, evaluation, logging and checkpoints", found.other),
    )
    shares = ", ".join(f"{units.format_share(share)} {name}" for name, share in causes if share >= 0.01)
    return (
        f"The mean iteration takes {units.format_ms(found.mean_ms)}{rate}: {ratio} times the typical one, because of "
        f"{units.plural(found.long_iterations, 'long iteration')} of {found.iterations}. Of the wall time: {shares}."
    )
