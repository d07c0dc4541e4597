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
    """One rank: what it did, and how its collectives depend on one another."""

    work: RankWork
    graph: RankGraph


@dataclass(frozen=True, slots=True)
class Unread:
    """A file of the job that could not be used, and why."""

    file: str
    reason: str


def read_rank(path: str) -> RankTrace | Unread:
    """Read a trace and keep its collectives and the work between them. A file of no use stops no other."""
    try:
        trace = read(Path(path))
    except SkylineError as error:
        return Unread(path, error.message)
    work = rank_work(trace, path)
    graph = rank_graph(trace, work)
    return RankTrace(work, graph if graph.reduced else reduced(graph))


def read_whole(path: str) -> RankTrace:
    """As ``read_rank``, with every task of the rank, for a what-if that changes tasks of several ranks."""
    trace = read(Path(path))
    work = rank_work(trace, path)
    return RankTrace(work, rank_graph(trace, work))


@dataclass(frozen=True, slots=True)
class ChangedRank:
    """``read_rank`` with a what-if asked of the rank's graph before it is reduced; to be sent to other processes."""

    change: Change

    def __call__(self, path: str) -> RankTrace | Unread:
        """Raises ValueError where the what-if adds or takes away tasks."""
        try:
            one = read_whole(path)
        except SkylineError as error:
            return Unread(path, error.message)
        if one.graph.reduced:
            return one
        changed = self.change(one.graph.graph)
        if len(changed) != len(one.graph.graph):
            raise ValueError("a what-if on a rank of a job keeps its tasks; give those to go no time instead")
        kept = one.graph
        return RankTrace(
            one.work, reduced(RankGraph(changed, kept.exchange, kept.step_end, kept.begin_us))
        )


def rank_graph(trace: ProfilerTrace, work: RankWork) -> RankGraph:
    """The rank's graph; where its collectives ran on host threads, which wait in ways that no trace records, its
    collectives with the work between them as measured."""
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
