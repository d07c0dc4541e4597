"""Wall time beyond the typical iteration: roll-outs, evaluation, checkpoints, logging and waits for data."""

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
"""The ratio of the mean to the typical iteration from which the typical one alone is misleading."""
_LONG = 1.5
"""The multiple of the typical iteration from which an iteration counts as long; the same as in SKY601."""
_LEAST_SHARE = 0.01
"""The share of the wall time from which a cause is named."""
_NAMED_CAUSES = 3
"""The number of causes in one line, the largest first."""


def wall_time_of(profile: Profile, typical_ms: float) -> WallTimeReport | None:
    """The shares of the timed iterations' wall time. None if the mean iteration is about as long as a typical one."""
    times = profile.times
    steps = times.steps_ms
    if len(steps) < _LEAST_ITERATIONS or typical_ms <= 0 or fmean(steps) < _UNEVEN * typical_ms:
        return None
    total = sum(steps)
    typical = min(1.0, len(steps) * typical_ms / total)
    beyond = {
        "rollouts": _beyond(times.rollout_ms),
        "evaluation": _beyond(times.evaluation_ms),
        "checkpoints": _beyond(times.saving_ms),
        "logging": _beyond(times.logging_ms),
        "data": _beyond(times.data_ms),
        "passes": _beyond(times.backward_ms) + _beyond(times.optimizer_ms),
    }
    known = sum(beyond.values())
    # Parts timed by the host's clock may exceed iterations timed by a device's clock.
    rest = 1.0 - typical
    scale = min(1.0, rest * total / known) if known > 0 else 0.0
    shares = {name: part_ms * scale / total for name, part_ms in beyond.items()}
    found = WallTimeReport(
        iterations=len(steps),
        long_iterations=sum(step > _LONG * typical_ms for step in steps),
        mean_ms=fmean(steps),
        typical=typical,
        data=shares["data"],
        passes=shares["passes"],
        other=max(0.0, rest - sum(shares.values())),
        throughput=_throughput(profile, times),
        rollouts=shares["rollouts"],
        evaluation=shares["evaluation"],
        checkpoints=shares["checkpoints"],
        logging=shares["logging"],
    )
    busy = profile.load is not None and profile.load.busy
    return found if busy else replace(found, remark=_remark(found, typical_ms))


def _beyond(parts_ms: Sequence[float]) -> float:
    """The time of a part beyond its median, summed over the iterations."""
    usual = median(parts_ms) if parts_ms else 0.0
    return max(0.0, sum(parts_ms) - len(parts_ms) * usual)


def _throughput(profile: Profile, times: BareTimes) -> float | None:
    samples = profile.batch.samples_per_iteration or profile.batch_size
    return samples * 1e3 / fmean(times.steps_ms) if samples else None


def _remark(found: WallTimeReport, typical_ms: float) -> str:
    """One line: the mean and the median iteration, and the shares of the wall time that make the difference."""
    rate = f", {units.format_throughput(found.throughput)}" if found.throughput is not None else ""
    causes = (
        ("roll-outs", found.rollouts),
        ("evaluation", found.evaluation),
        ("checkpoints", found.checkpoints),
        ("logging", found.logging),
        ("data", found.data),
        ("passes", found.passes),
        ("other", found.other),
    )
    largest = sorted(causes, key=lambda cause: -cause[1])[:_NAMED_CAUSES]
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in largest if share >= _LEAST_SHARE)
    return (
        f"Mean iteration {units.format_ms(found.mean_ms)}{rate}: {units.format_ratio(found.mean_ms / typical_ms)} the "
        f"median, {found.long_iterations} of {found.iterations} long; {shares}"
    )
