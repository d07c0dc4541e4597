"""A smaller sub-model for the slow rank of a job (FLuID, Wang et al. 2023): the kept width that evens the step."""

from __future__ import annotations

from math import sqrt

import numpy as np

from skyline.graph.graph import Graph, scale
from skyline.graph.task import KIND, PHASE, WORK, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.job.job import Job
from skyline.job.rank_reader import RankReader, Unread
from skyline.job.rank_work import WidthTime
from skyline.job.times import JobTimes, simulated
from skyline.job.workers import Workers
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase

_MATTERS = 0.005
"""The least gain, as a share of the step; less is shown as no gain."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A rank that trains a sub-model with a share of the width; can be sent to other processes.

    The time of products is proportional to the square of the width, since the layer before is narrower, too;
    the time of other kernels is proportional to the width. Collectives, copies and the host's work stay.
    """

    width: float

    def __call__(self, graph: Graph) -> Graph:
        """The graph with shorter kernels."""
        tasks = graph.tasks
        kernels = (tasks.kind == KIND[TaskKind.KERNEL]) & (tasks.phase != PHASE[Phase.COMMUNICATION])
        chosen = np.flatnonzero(kernels)
        products = np.isin(tasks.work[chosen], [WORK[WorkClass.MATMUL], WORK[WorkClass.CONVOLUTION]])
        return scale(graph, chosen, np.where(products, self.width**2, self.width))


@dataclass(frozen=True, slots=True, eq=False)
class SubModel:
    """The sub-model of the straggler, and the simulated job with it."""

    straggler: int
    """The place of the straggler among the ranks."""
    width: Interval
    """The share of the width that is kept, if all kernel times depend on the width (low) or on its square (high)."""
    kernels_us: float
    """The time per step of the straggler's kernels that depends on the width."""
    times: JobTimes


def sub_model(job: Job, workers: Workers) -> SubModel | None:
    """The sub-model with which the straggler is as fast as the others; its trace is read once more.

    None if no rank stands out, if its kernels are not the cause (it would be late even without them), or if
    its collectives ran on host threads, so that the work between them is only known as a whole.
    """
    if job.evened is None or job.simulated is None:
        return None
    place, step_us = job.evened.straggler, job.simulated.step_us
    excess_us = step_us - job.evened.times.step_us
    if excess_us < _MATTERS * step_us:
        return None
    rank = job.alignment.ranks[place]
    kernels = rank.by_width.scaled(1 / len(rank.step_number))
    width = kept_width(kernels, excess_us)
    if width is None:
        return None
    (read,) = workers.map(RankReader(Narrowed(width.value)), [rank.file])
    if isinstance(read, Unread) or read.changed is None:
        return None
    graphs = [read.changed if at == place else graph for at, graph in enumerate(job.graphs)]
    return SubModel(place, width, kernels.total_us, simulated(job.alignment, job.split, graphs))


def kept_width(kernels: WidthTime, excess_us: float) -> Interval | None:
    """The share of the width that shortens the kernels of a step by ``excess_us``; None if no share does.

    The positive root of squared · w² + linear · w = squared + linear - excess.
    """
    squared, linear = kernels.squared_us, kernels.linear_us
    left = kernels.total_us - excess_us
    if excess_us <= 0 or left <= 0:
        return None
    share = left / kernels.total_us
    root = (sqrt(linear**2 + 4 * squared * left) - linear) / (2 * squared) if squared else left / linear
    return Interval(root, share, sqrt(share))
