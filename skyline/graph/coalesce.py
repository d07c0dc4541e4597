"""Merging runs of like tasks: fewer tasks to simulate, with the same times on every lane."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from skyline.graph.graph import Dependency, Graph, Structure
from skyline.graph.task import Task


def coalesce(graph: Graph, key: Callable[[Task], Hashable] | None = None) -> Graph:
    """Merge neighbours on a lane that have the same ``key`` and that nothing depends on or waits inside of.

    The merged task takes the sum of the durations and then the sum of the gaps. The default key keeps apart
    what is shown or changed apart: kind, class of work, iteration, phase and line.
    """
    alike = key or _alike
    bound_in = {dependency.target for dependency in graph.structure.dependencies}
    bound_out = {dependency.source for dependency in graph.structure.dependencies}
    into: list[int] = []
    tasks: list[Task] = []
    durations: list[float] = []
    gaps: list[float] = []
    open_on_lane: dict[str, int] = {}
    last_index: dict[str, int] = {}
    for index, task in enumerate(graph.tasks):
        place = open_on_lane.get(task.lane)
        if (
            place is not None
            and index not in bound_in
            and last_index[task.lane] not in bound_out
            and alike(tasks[place]) == alike(task)
        ):
            merged = tasks[place]
            tasks[place] = replace(
                merged,
                count=merged.count + task.count,
                recording_us=merged.recording_us + task.recording_us,
            )
            durations[place] += graph.durations[index]
            gaps[place] += graph.gaps[index]
        else:
            place = open_on_lane[task.lane] = len(tasks)
            tasks.append(task)
            durations.append(graph.durations[index])
            gaps.append(graph.gaps[index])
        last_index[task.lane] = index
        into.append(place)
    dependencies = tuple(
        Dependency(into[d.source], into[d.target], d.cause, d.lag_us, d.from_start)
        for d in graph.structure.dependencies
    )
    return Graph(Structure(tuple(tasks), dependencies), tuple(durations), tuple(gaps))


def _alike(task: Task) -> Hashable:
    return (task.kind, task.work, task.iteration, task.phase, task.line, task.call_line, task.module)
