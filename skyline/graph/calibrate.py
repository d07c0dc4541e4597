"""Recording inflates time: give the tasks of a recorded graph the times that the bare iterations took."""

from __future__ import annotations

from collections.abc import Mapping

from skyline.graph.graph import Graph
from skyline.graph.part import Part, part_of
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.trace.phase import Phase

_PHASE_OF_PART = {
    Part.LOADER: Phase.DATA,
    Part.BACKWARD: Phase.BACKWARD,
    Part.OPTIMIZER: Phase.OPTIMIZER,
    Part.REST: Phase.OTHER,
}


def calibrate(graph: Graph, lane: str, target_ms: Mapping[Part, float]) -> Graph:
    """Scale the tasks of ``lane``, part by part and iteration by iteration, to the bare milliseconds.

    A part without a bare time (zero) cannot be told apart from the rest, so its tasks are scaled with the
    rest. A part that has a bare time but no task in an iteration gets one task without a line, so that every
    iteration of the lane sums to the target.
    """
    told_apart = {part for part, ms in target_ms.items() if ms > 0}
    parts = [_effective_part(task, told_apart) if task.lane == lane else None for task in graph.tasks]
    recorded: dict[tuple[int, Part], float] = {}
    for task, part, duration, gap in zip(graph.tasks, parts, graph.durations, graph.gaps, strict=True):
        if part is not None:
            key = (task.iteration, part)
            recorded[key] = recorded.get(key, 0.0) + duration + gap
    factors = {key: target_ms.get(key[1], 0.0) * 1e3 / total for key, total in recorded.items() if total > 0}
    scaled = graph.scale_each(
        {
            index: factors.get((graph.tasks[index].iteration, part), 1.0)
            for index, part in enumerate(parts)
            if part is not None
        },
        gaps=True,
    )
    missing = [
        (iteration, part, ms)
        for iteration in graph.iterations
        for part, ms in target_ms.items()
        if ms > 0 and recorded.get((iteration, part), 0.0) <= 0
    ]
    for iteration, part, ms in missing:
        scaled = _with_unrecorded(scaled, lane, iteration, part, ms * 1e3)
    return scaled


def _effective_part(task: Task, told_apart: set[Part]) -> Part:
    part = part_of(task)
    return part if part in told_apart else Part.REST


def _with_unrecorded(graph: Graph, lane: str, iteration: int, part: Part, duration_us: float) -> Graph:
    """One task for time that was measured bare and left no record, at the end of the iteration on the lane."""
    at = max(
        (i + 1 for i, task in enumerate(graph.tasks) if task.lane == lane and task.iteration <= iteration),
        default=0,
    )
    kind = TaskKind.DATA if part is Part.LOADER else TaskKind.CPU
    task = Task("unrecorded", kind, WorkClass.OTHER, lane, _PHASE_OF_PART[part], iteration)
    return graph.insert(task, duration_us, at=at)


def scale_host_to(graph: Graph, lane: str, factor: float) -> Graph:
    """All CPU work of a lane, gaps included, times one factor; what it waits for on a GPU stays as recorded."""
    return graph.scale(graph.select(lambda task: task.lane == lane), factor, gaps=True)
