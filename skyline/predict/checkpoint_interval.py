"""The interval between checkpoints that loses the least time to saving and to repeated work after a failure.

Young 1974, "A first order approximation to the optimum checkpoint interval"; Daly 2006, "A higher order
estimate of the optimum checkpoint interval for restart dumps". Failures are random, with a constant rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, expm1, inf, sqrt
from statistics import median

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.observed_training import ObservedSave, ObservedTraining
from skyline.trace.record import CodeLine

MTBF_HOURS = 1145.0
"""47.7 days between two failures of a job on eight GPUs: Kokolis and others 2025, "Revisiting Reliability in
Large-Scale Machine Learning Research Clusters", 4 million jobs in eleven months."""
MTBF_SOURCE = "jobs on 8 GPUs in two research clusters, Kokolis and others 2025"
_LARGEST_EXPONENT = 50.0
"""Largest number of failures per checkpoint interval. A training with more never ends."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The mean time between two failures of the training, and the source of the figure."""

    mtbf_s: float = MTBF_HOURS * 3600
    source: str = MTBF_SOURCE


@dataclass(frozen=True, slots=True)
class Saving:
    """The checkpoints of an observed training, and the best interval between them.

    A checkpoint is everything that is saved between the same two iterations; ``line`` is the line of the
    longest save. ``every`` is the number of iterations between two checkpoints; None if only one was seen.
    ``save_s`` is the time that a checkpoint adds to an iteration, including work around the calls of
    ``torch.save``. ``restart_s`` is the time to start the script and to read a checkpoint, which is assumed
    to take as long as saving it. Shares of time are relative to a training without checkpoints and failures.
    ``lost_partial`` is the loss at the best interval without repeated work: the least that partial recovery
    can lose.
    """

    line: CodeLine | None
    seen: int
    save_s: Interval
    size_bytes: int
    restart_s: float
    iteration_ms: float
    every: float | None
    best: int
    lost_now: float | None
    lost_best: float
    lost_partial: float
    failures: Failures


def saving(training: ObservedTraining, failures: Failures, epoch: float | None = None) -> Saving | None:
    """The checkpoints of an observed training. None if it saved none. ``epoch`` is an epoch's number of iterations.

    Files written before the first iteration, such as prepared data, do not count.
    """
    groups: dict[int, list[ObservedSave]] = {}
    saves = [one for one in training.saves if one.iteration]
    for one in saves:
        groups.setdefault(one.iteration, []).append(one)
    if not groups:
        return None
    times = [training.around_saves_s + sum(one.seconds for one in group) for group in groups.values()]
    longest = max(saves, key=lambda one: one.seconds)
    save_s = Interval(median(times), min(times), max(times))
    restart_s = training.startup_s + save_s.value
    step_s = training.iteration_ms / 1e3
    best = max(1, round(best_interval_s(save_s.value, failures.mtbf_s) / step_s))
    every = _every(sorted(groups), epoch)

    def lost(iterations: float) -> float:
        return lost_share(iterations * step_s, save_s.value, restart_s, failures.mtbf_s)

    return Saving(
        line=longest.line,
        seen=len(groups),
        save_s=save_s,
        size_bytes=max(sum(one.size_bytes for one in group) for group in groups.values()),
        restart_s=restart_s,
        iteration_ms=training.iteration_ms,
        every=every,
        best=best,
        lost_now=None if every is None else lost(every),
        lost_best=lost(best),
        lost_partial=save_s.value / (best * step_s) + restart_s / failures.mtbf_s,
        failures=failures,
    )


def _every(iterations: Sequence[int], epoch: float | None) -> float | None:
    """Iterations between two checkpoints. A single checkpoint at the end of an epoch counts as one per epoch."""
    distances = [later - earlier for earlier, later in pairwise(iterations)]
    if distances:
        return median(distances)
    at_end = epoch is not None and epoch >= 1 and min(iterations[0] % epoch, -iterations[0] % epoch) <= 1
    return epoch if at_end and iterations[0] > 1 else None


def best_interval_s(save_s: float, mtbf_s: float) -> float:
    """Daly's estimate of the training time between two checkpoints. Without the second factor it is Young's."""
    if save_s >= 2 * mtbf_s:
        return mtbf_s
    ratio = save_s / (2 * mtbf_s)
    return max(save_s, sqrt(2 * save_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - save_s)


def lost_share(every_s: float, save_s: float, restart_s: float, mtbf_s: float) -> float:
    """Expected extra time of a training as a share of its own time: saving, restarting, and repeated work."""
    attempt = (every_s + save_s) / mtbf_s
    if attempt > _LARGEST_EXPONENT:
        return inf
    return mtbf_s / every_s * exp(restart_s / mtbf_s) * expm1(attempt) - 1
