"""Primitive: add tasks. GPU work is added together with the call that launches it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Ids, Times
from skyline.graph.dependency import NO_DEPENDENCIES, Cause, Dependency
from skyline.graph.graph import Graph, arranged, extended
from skyline.graph.launching import launches
from skyline.graph.task import KIND, ON_GPU, Task, TaskKind, Tasks, WorkClass
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Insertion:
    """A task to add and its place: directly behind task ``after`` of the graph, or before all tasks (-1).

    On its lane it runs after the tasks that precede this place.
    """

    task: Task
    duration_us: float
    after: int
    gap_us: float = 0.0


def insert(
    graph: Graph, insertions: Sequence[Insertion], dependencies: Sequence[Dependency] = NO_DEPENDENCIES
) -> Graph:
    """The graph with further tasks and dependencies.

    ``dependencies`` use the task numbers of the graph, continued by the insertions: the first insertion is task
    ``len(graph)``. Existing dependencies remain. Insertions behind the same task keep the given order.
    """
    count = len(graph)
    grown = extended(
        graph,
        Tasks.of([one.task for one in insertions]),
        np.array([one.duration_us for one in insertions], np.float64),
        np.array([one.gap_us for one in insertions], np.float64),
        graph.structure.dependencies.joined(dependencies),
    )
    slots = np.array([one.after + 1 for one in insertions], np.int64)
    if len(slots) and (slots.min() < 0 or slots.max() > count):
        raise IndexError(f"a task can be inserted behind task -1 to {count - 1}")
    return arranged(grown, np.insert(np.arange(count), slots, count + np.arange(len(slots))))


@dataclass(frozen=True, slots=True)
class InsertedGpuWork:
    """A kernel or copy to add, launched by a call directly behind the CPU task ``after``."""

    task: Task
    duration_us: float
    after: int


def insert_gpu_work(
    graph: Graph,
    work: Sequence[InsertedGpuWork],
    *,
    launch_us: float | None = None,
    latency_us: float | None = None,
    dependencies: Sequence[Dependency] = NO_DEPENDENCIES,
) -> Graph:
    """The graph with further GPU work; each piece gets a launch call on the lane of ``after``.

    On its stream a piece runs after everything launched before it and before everything launched later. The
    launch call takes ``launch_us``. The work begins at least ``latency_us`` after the start of the call. Both, and
    the stream's turnaround, default to the medians of the graph's launches.

    ``dependencies`` are numbered as for ``insert``; the first piece is task ``len(graph)``, and the launch calls
    follow the pieces.

    Raises:
        UsageError: the defaults are needed, but the graph holds no launch.
        ValueError: a task is not GPU work, or ``after`` is.
    """
    tasks = graph.tasks
    for one in work:
        if not ON_GPU[KIND[one.task.kind]]:
            raise ValueError(f"{one.task.name} is {one.task.kind.value} work: add it with insert()")
        if ON_GPU[tasks.kind[one.after]]:
            raise ValueError(
                f"task {one.after} runs on a GPU; a launch belongs behind a task of a CPU thread"
            )
    launch_us = _known(launch_us, _launch_durations(graph), "launch_us")
    latency_us = _known(latency_us, _latencies(graph), "latency_us")
    kernel_gaps = graph.gaps[ON_GPU[tasks.kind]]
    turnaround_us = float(np.median(kernel_gaps)) if len(kernel_gaps) else 0.0
    insertions: list[Insertion] = []
    calls: list[Insertion] = []
    joins: list[Dependency] = []
    for number, (one, before) in enumerate(zip(work, _last_launched(graph, work), strict=True)):
        # The launch goes behind `after`; of several possible places, the last one is behind both.
        insertions.append(Insertion(one.task, one.duration_us, max(one.after, before), turnaround_us))
        calls.append(
            Insertion(
                Task(
                    f"launch {one.task.name}",
                    TaskKind.LAUNCH,
                    WorkClass.OTHER,
                    tasks.lanes[int(tasks.lane[one.after])],
                    one.task.phase,
                    one.task.iteration,
                    one.task.line,
                    one.task.call_line,
                    one.task.module,
                ),
                launch_us,
                one.after,
            )
        )
        piece, launch = len(graph) + number, len(graph) + len(work) + number
        joins.append(Dependency(launch, piece, Cause.LAUNCH, latency_us, from_start=True))
    return insert(graph, [*insertions, *calls], [*joins, *dependencies])


def _known(given: float | None, samples: Times, name: str) -> float:
    if given is not None:
        return given
    if not len(samples):
        raise UsageError(
            "no launch of GPU work in the graph to take the default cost from",
            hint=f"Give the cost of a launch: insert_gpu_work(…, {name}=…).",
        )
    return float(np.median(samples))


def _launch_durations(graph: Graph) -> Times:
    return graph.durations[graph.tasks.kind == KIND[TaskKind.LAUNCH]]


def _latencies(graph: Graph) -> Times:
    edges = launches(graph)
    return edges.lag_us[edges.from_start]


def _launched_at(graph: Graph) -> Ids:
    """For each GPU task the index of its launch; for other tasks, and without a launch, the task's own index."""
    found = np.arange(len(graph), dtype=np.int32)
    edges = launches(graph)
    found[edges.target] = edges.source
    return found


def _last_launched(graph: Graph, work: Sequence[InsertedGpuWork]) -> list[int]:
    """For each piece the last task on its stream launched at or before it, or -1."""
    launched_at = _launched_at(graph)
    streams: dict[str, tuple[Ids, Ids]] = {}
    found: list[int] = []
    for one in work:
        lane = one.task.lane
        if lane not in streams:
            members = np.flatnonzero(graph.tasks.lane == graph.tasks.lane_code(lane)).astype(np.int32)
            # The earliest launch of a member or a later one: it increases monotonically, so a binary search works.
            earliest = np.minimum.accumulate(launched_at[members][::-1])[::-1]
            streams[lane] = members, earliest
        members, earliest = streams[lane]
        place = int(np.searchsorted(earliest, one.after, side="right")) - 1
        found.append(int(members[place]) if place >= 0 else -1)
    return found
