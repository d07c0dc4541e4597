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
"""Ratio of the mean to the typical iteration from which on the typical one alone misleads."""
_LONG = 1.5
"""Multiple of the typical iteration from which on an iteration counts as a long one; that of SKY601."""
_LEAST_SHARE = 0.01


def wall_time_of(profile: Profile, typical_ms: float) -> WallTimeReport | None:
    """The shares of the timed iterations' wall time; None where the mean iteration is about a typical one."""
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
    # Parts of the host's clock may exceed the iterations of a device's.
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
    return found if busy else replace(found, words=_words(found, typical_ms))


def _beyond(parts_ms: Sequence[float]) -> float:
    """Time of a part beyond its median in each iteration."""
    usual = median(parts_ms) if parts_ms else 0.0
    return max(0.0, sum(parts_ms) - len(parts_ms) * usual)


def _throughput(profile: Profile, times: BareTimes) -> float | None:
    samples = profile.batch.samples_per_iteration or profile.batch_size
    return samples * 1e3 / fmean(times.steps_ms) if samples else None


def _words(found: WallTimeReport, typical_ms: float) -> str:
    """The mean next to the typical iteration, with the causes of the difference, largest first."""
    ratio = units.format_ratio(found.mean_ms / typical_ms).removesuffix("x")
    rate = f", {units.format_throughput(found.throughput)}" if found.throughput is not None else ""
    causes = (
        ("roll-outs", found.rollouts),
        ("evaluation", found.evaluation),
        ("checkpoints", found.checkpoints),
        ("logging", found.logging),
        ("longer waits for data", found.data),
        ("longer passes and updates", found.passes),
    )
    largest = sorted(causes, key=lambda cause: -cause[1])
    shown = [("typical iterations", found.typical), *largest, ("the rest of the script", found.other)]
    shares = ", ".join(
        f"{units.format_share(share)} {name}" for name, share in shown if share >= _LEAST_SHARE
    )
    return (
        f"The mean iteration takes {units.format_ms(found.mean_ms)}{rate}: {ratio} times the typical one, because of "
        f"{units.plural(found.long_iterations, 'long iteration')} of {found.iterations}. Of the wall time: {shares}."
    )
