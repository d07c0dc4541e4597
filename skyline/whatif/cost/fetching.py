"""The graph of a profiler trace in which loader workers make the batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from skyline.errors import UsageError
from skyline.graph.assembly import KinetoGraph
from skyline.graph.column import Indices
from skyline.graph.dependency import CAUSE, Cause, Dependency
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.predict.fetching_costs import FetchingCosts
from skyline.simulate.engine import simulate
from skyline.trace.kineto.profiler_trace import ProfilerTrace


@dataclass(frozen=True, slots=True)
class Fetching:
    """The graph with workers, and the time that each recorded step would take."""

    graph: Graph
    step_us: tuple[float, ...]
    loading_us: float
    """Time to make one batch, on average over the recorded fetches."""
    busy_workers: float
    """Number of workers that are busy at a time, on average."""


def with_workers(
    trace: ProfilerTrace,
    recorded: KinetoGraph,
    workers: int,
    costs: FetchingCosts | None = None,
    *,
    prefetch: int = 2,
) -> Fetching:
    """The graph in which workers make the script's batches, each ``prefetch`` batches ahead, as in ``DataLoader``.

    The script's thread takes a batch instead of making it. It waits until the worker has the batch, and pays
    the cost of taking it, first reading it, and returning its memory. Workers take as long for a batch as the
    script did, and pass it through shared memory. While they are busy, all other CPU work is a little slower.
    Each worker is assumed to have a core; a machine with fewer cores is slower.

    Raises:
        UsageError: the trace shows no batches being made by the script's thread.
    """
    if workers < 1:
        raise UsageError(f"{workers} workers make no batches", hint="give at least 1 worker")
    known = costs if costs is not None else FetchingCosts()
    graph = recorded.graph
    fetches = _fetches(recorded)
    if not fetches:
        raise UsageError(
            "the trace shows no batch being made by the script's own thread",
            hint="record a run whose DataLoader has num_workers=0, with the profiler active around the fetches",
        )
    loading = [
        float((graph.durations[one] + graph.gaps[one])[:-1].sum() + graph.durations[one[-1]])
        for one in fetches
    ]
    megabytes = batch_bytes(trace, recorded) / 1e6
    taking = known.taking_us + megabytes * known.returning_us_per_mb
    made = [one + megabytes * known.writing_us_per_mb for one in loading]
    read = _read_first(trace, recorded, known.reading_us_per_mb)
    moved = _moved(read, fetches, made, workers, prefetch, taking)
    # Busy workers slow the script, and a slower script leaves its workers idle for longer: few rounds
    # converge.
    cpu = select(moved, kind=(TaskKind.CPU, TaskKind.LAUNCH, TaskKind.SYNC), on_gpu=False)
    first, last = _ends(moved, recorded)
    slowed, busy = moved, 0.0
    for _ in range(3):
        starts = np.asarray(simulate(slowed).starts)
        step_us = starts[last] - starts[first]
        typical = float(np.median(step_us[recorded.steps.inner])) if len(step_us) else float(starts.max())
        busy = min(float(workers), float(np.mean(made)) / typical) if typical else 0.0
        slowed = scale(moved, cpu, 1 + known.slowdown_beside_one * busy, gaps=True)
    starts = np.asarray(simulate(slowed).starts)
    return Fetching(slowed, tuple((starts[last] - starts[first]).tolist()), float(np.mean(loading)), busy)


def batch_bytes(trace: ProfilerTrace, recorded: KinetoGraph) -> float:
    """Bytes copied to the GPU per step, which in a training loop are its batches; 0 if nothing is copied."""
    copies = select(recorded.graph, kind=TaskKind.COPY, name=("HtoD", "HostToDevice"))
    per_step = np.bincount(
        recorded.graph.tasks.iteration[copies], weights=trace.size_bytes[recorded.event[copies]]
    )
    return float(np.median(per_step)) if len(per_step) else 0.0


def _fetches(recorded: KinetoGraph) -> list[Indices]:
    """The tasks of each fetch on the script's thread, in order."""
    found = select(recorded.graph, kind=TaskKind.DATA, lane=recorded.main)
    bounds = np.flatnonzero(recorded.event[found[1:]] != recorded.event[found[:-1]]) + 1
    return [one for one in np.split(found, bounds) if len(one)]


def _read_first(trace: ProfilerTrace, recorded: KinetoGraph, us_per_mb: float) -> Graph:
    """The graph with longer copies from pageable memory to the GPU."""
    graph = recorded.graph
    copies = select(graph, kind=TaskKind.COPY, name=("HtoD (Pageable", "HostToDevice (Pageable"))
    extra = np.zeros(len(graph))
    extra[copies] = trace.size_bytes[recorded.event[copies]] / 1e6 * us_per_mb
    edges = graph.structure.dependencies
    # If a call returns before its copy is done, it waits this long from the start of the copy.
    staged = (edges.cause == CAUSE[Cause.SYNC]) & edges.from_start & (extra[edges.source] > 0)
    durations = graph.durations + extra
    durations[edges.target[staged]] += extra[edges.source[staged]]
    return graph.with_times(durations=durations)


def _moved(
    graph: Graph,
    fetches: list[Indices],
    made: list[float],
    workers: int,
    prefetch: int,
    taking_us: float,
) -> Graph:
    """The graph with each batch made on a worker's lane, and taken where it was made before."""
    inside = np.concatenate(fetches)
    ends = np.array([one[-1] for one in fetches])
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    durations[inside] = 0.0
    gaps[np.setdiff1d(inside, ends)] = 0.0
    durations[ends] = taking_us
    insertions: list[Insertion] = []
    dependencies: list[Dependency] = []
    ahead = prefetch * workers
    for number, fetch in enumerate(fetches):
        begun_by = fetches[number - ahead] if number >= ahead else None
        task = replace(graph.tasks[int(fetch[0])], lane=f"loader worker {number % workers}")
        after = int(begun_by[-1]) if begun_by is not None else -1
        insertions.append(Insertion(task, made[number], after))
        made_by = len(graph) + number
        dependencies.append(Dependency(made_by, int(fetch[0]), Cause.LOADER))
        if begun_by is not None:
            dependencies.append(Dependency(after, made_by, Cause.LOADER))
    return insert(graph.with_times(durations=durations, gaps=gaps), insertions, dependencies)


def _ends(moved: Graph, recorded: KinetoGraph) -> tuple[Indices, Indices]:
    """The tasks that begin and end the steps in the moved graph: tasks of the script's lane keep their order."""
    before = select(recorded.graph, lane=recorded.main)
    now = select(moved, lane=recorded.main)
    steps = recorded.steps
    return now[np.searchsorted(before, steps.first)], now[np.searchsorted(before, steps.last)]
