"""Recording inflates time: give the tasks of a recorded graph the times that the bare iterations took."""

from __future__ import annotations

from collections.abc import Mapping

from skyline.graph.graph import Graph
from skyline.graph.part import Part, part_of
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.trace.phase import Phase

_DEAREST = 1.5
_LEAST_LEFT = 0.3
"""However much recording had to note on a task, this share of its time was its own."""

_PHASE_OF_PART = {
    Part.LOADER: Phase.DATA,
    Part.BACKWARD: Phase.BACKWARD,
    Part.OPTIMIZER: Phase.OPTIMIZER,
    Part.REST: Phase.OTHER,
}


def calibrate(graph: Graph, lane: str, target_ms: Mapping[Part, float]) -> Graph:
    """Bring the tasks of ``lane``, part by part and iteration by iteration, to the bare milliseconds.

    What a part took longer under recording is taken first from the tasks on which recording had most to note:
    a thousand small calls become much slower by it, one long operator or a sleep not at all. The rest is scaled.

    A part without a bare time (zero) cannot be told apart from the rest, so its tasks are scaled with the
    rest. A part that has a bare time but no task in an iteration gets one task without a line, so that every
    iteration of the lane sums to the target.
    """
    told_apart = {part for part, ms in target_ms.items() if ms > 0}
    parts = [_effective_part(task, told_apart) if task.lane == lane else None for task in graph.tasks]
    recorded: dict[tuple[int, Part], float] = {}
    noted: dict[tuple[int, Part], float] = {}
    for task, part, duration, gap in zip(graph.tasks, parts, graph.durations, graph.gaps, strict=True):
        if part is not None:
            key = (task.iteration, part)
            recorded[key] = recorded.get(key, 0.0) + duration + gap
            noted[key] = noted.get(key, 0.0) + task.recording_us
    factors: dict[int, float] = {}
    remaining: dict[tuple[int, Part], float] = {}
    for index, (task, part) in enumerate(zip(graph.tasks, parts, strict=True)):
        if part is None:
            continue
        key = (task.iteration, part)
        time_us = graph.durations[index] + graph.gaps[index]
        excess_us = recorded[key] - target_ms.get(part, 0.0) * 1e3
        own_us = _own_time(time_us, task.recording_us, excess_us, noted[key])
        factors[index] = own_us / time_us if time_us > 0 else 1.0
        remaining[key] = remaining.get(key, 0.0) + own_us
    for index, part in enumerate(parts):
        left_us = remaining[graph.tasks[index].iteration, part] if part is not None else 0.0
        if part is not None and left_us > 0:
            factors[index] *= target_ms.get(part, 0.0) * 1e3 / left_us
    scaled = graph.scale_each(factors, gaps=True)
    missing = [
        (iteration, part, ms)
        for iteration in graph.iterations
        for part, ms in target_ms.items()
        if ms > 0 and recorded.get((iteration, part), 0.0) <= 0
    ]
    for iteration, part, ms in missing:
        scaled = _with_unrecorded(scaled, lane, iteration, part, ms * 1e3)
    return scaled


def _own_time(time_us: float, recording_us: float, excess_us: float, noted_us: float) -> float:
    """A task's time without the recording, as far as the excess of its part over its bare time allows.

    ``noted_us`` is what recording took of the whole part by the rough estimate of the records; the machine may
    be up to ``_DEAREST`` times slower at it.
    """
    if excess_us <= 0 or noted_us <= 0:
        return time_us
    rate = min(_DEAREST, excess_us / noted_us)
    return max(_LEAST_LEFT * time_us, time_us - rate * recording_us)


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
