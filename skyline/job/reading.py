"""Reads one rank's trace and keeps what a job needs of it; made to run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skyline.errors import SkylineError
from skyline.graph.from_kineto import built
from skyline.graph.graph import Graph
from skyline.graph.order import CyclicGraph
from skyline.job.as_measured import as_measured
from skyline.job.rank_graph import RankGraph
from skyline.job.rank_work import RankWork, rank_work
from skyline.job.reduction import reduced
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.kineto.reader import read

Change = Callable[[Graph], Graph]
"""A what-if that leaves tasks where they stand: other times, other dependencies."""


@dataclass(frozen=True, slots=True)
class RankTrace:
    """One rank: what it did, how its collectives depend on one another, and that again under a what-if."""

    work: RankWork
    graph: RankGraph
    changed: RankGraph | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A file of the job that could not be used, and why."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class RankReader:
    """Reads a rank's trace, and keeps its collectives and the work between them; can be sent to other processes."""

    change: Change | None = None
    """A what-if that is asked of the rank as well, while all its tasks are at hand."""
    ranks: tuple[int, ...] | None = None
    """The ranks that it is about; None for all."""
    whatif: Callable[[ProfilerTrace], Graph] | None = None
    """The same where the change needs the rank's own trace; in place of ``change``."""

    def __call__(self, path: str) -> RankTrace | Unread:
        """A file of no use stops no other. Raises ValueError where the what-if adds or takes away tasks."""
        try:
            trace = read(Path(path))
            work = rank_work(trace, path)
            one = RankTrace(work, rank_graph(trace, work))
        except SkylineError as error:
            return Unread(path, error.message)
        if one.graph.reduced:
            return one
        changed = None
        if self.ranks is None or one.work.rank in self.ranks:
            if self.whatif is not None:
                changed = reduced(_changed(one, self.whatif(trace)))
            elif self.change is not None:
                changed = reduced(_changed(one, self.change(one.graph.graph)))
        return RankTrace(one.work, reduced(one.graph), changed)


def read_whole(path: str) -> RankTrace:
    """One rank with every task, for whoever joins whole graphs. Raises UsageError for what is no trace."""
    trace = read(Path(path))
    work = rank_work(trace, path)
    return RankTrace(work, rank_graph(trace, work))


def _changed(one: RankTrace, graph: Graph) -> RankGraph:
    """The rank under a what-if. A collective takes as many times as long as its task does in the changed graph."""
    kept = one.graph
    if len(graph) != len(kept.graph):
        raise ValueError(
            "a what-if on a rank of a job keeps its tasks; let those that go take no time instead"
        )
    task = np.maximum(kept.exchange, 0)
    before = kept.graph.durations[task]
    told = (kept.exchange >= 0) & (before > 0)
    pace = np.where(told, graph.durations[task] / np.where(told, before, 1.0), 1.0)
    return RankGraph(graph, kept.exchange, kept.step_end, kept.begin_us, pace)


def rank_graph(trace: ProfilerTrace, work: RankWork) -> RankGraph:
    """The rank with every task.

    Where its collectives ran on host threads, which wait for them in ways that no trace records, what is between
    them is kept as measured.
    """
    exchanges = work.exchanges
    if len(exchanges) and (trace.thread[exchanges.event] >= 0).any():
        return as_measured(work)
    found = built(trace)
    try:
        _ = found.graph.structure.order
    except CyclicGraph:
        return as_measured(work)
    task_of = np.full(len(trace), -1, np.int64)
    on_stream = trace.thread[found.event] < 0
    task_of[found.event[on_stream]] = np.flatnonzero(on_stream)
    ends = found.steps.last if work.marked else np.array([_last_of(found.graph, found.main)])
    begin = float(found.start_us[0])
    return RankGraph(found.graph, task_of[exchanges.event], ends.astype(np.int64), begin)


def _last_of(graph: Graph, lane: str) -> int:
    on_lane = np.flatnonzero(graph.tasks.lane == graph.tasks.lane_code(lane))
    return int(on_lane[-1]) if len(on_lane) else len(graph) - 1
