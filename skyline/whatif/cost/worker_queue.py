"""Batches made by worker processes in the graph of a profile, and the waits between workers and script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.insertion import Insertion, insert
from skyline.graph.merging import coalesce
from skyline.graph.replication import stitch
from skyline.graph.selection import select
from skyline.graph.task import KIND, TaskKind

_MOST_VARIED = 32


def roughly(graph: Graph) -> Graph:
    """The graph with one task for each stretch of loading and of other work; queues of batches need no more detail."""
    if len(graph.structure.lanes) > 1:
        return graph
    tasks = graph.tasks
    return coalesce(graph, (tasks.iteration, tasks.kind == KIND[TaskKind.DATA]))


def loader_and_compute_us(graph: Graph, lane: str) -> tuple[float, float]:
    """The time per iteration on the lane inside loaders, and all other time, in µs."""
    tasks = graph.tasks
    times_us = graph.durations + graph.gaps
    on_lane = tasks.lane == tasks.lane_code(lane)
    loading = tasks.kind == KIND[TaskKind.DATA]
    count = max(1, len(graph.iterations))
    return (
        float(times_us[on_lane & loading].sum()) / count,
        float(times_us[on_lane & ~loading].sum()) / count,
    )


def fetching(graph: Graph, lane: str, each_us: float) -> Graph:
    """The graph with every fetch on the lane taking ``each_us``."""
    fetches = select(graph, kind=TaskKind.DATA, lane=lane)
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    durations[fetches], gaps[fetches] = each_us, 0.0
    return graph.with_times(durations, gaps)


def with_queue(
    graph: Graph,
    lane: str,
    *,
    workers: int,
    prefetch: int,
    making_us: float,
    receive_us: float,
    varied: Sequence[float] = (),
) -> Graph:
    """The graph in which worker k mod ``workers`` makes batch k, and the script waits for it at the fetch.

    A worker starts a batch when the script has taken the batch that this worker made ``prefetch`` batches
    earlier. ``varied`` are ratios of successive batch times to ``making_us``. The graph is repeated until the
    queues are steady.
    """
    varied = tuple(varied[:_MOST_VARIED]) or (1.0,)
    graph = stitch(graph, max(2 * prefetch * workers + 4, 2 * len(varied)))
    fetches: list[int] = select(graph, kind=TaskKind.DATA, lane=lane).tolist()
    loads: list[Insertion] = []
    waits: list[Dependency] = []
    for number, fetch in enumerate(fetches):
        worker = replace(graph.tasks[fetch], name="load", lane=f"worker {number % workers}")
        loads.append(Insertion(worker, making_us * varied[number % len(varied)], after=fetch - 1))
        load = len(graph) + number
        waits.append(Dependency(load, fetch, Cause.LOADER))
        if number >= prefetch * workers:
            waits.append(Dependency(fetches[number - prefetch * workers], load, Cause.LOADER))
    return insert(fetching(graph, lane, receive_us), loads, waits)
