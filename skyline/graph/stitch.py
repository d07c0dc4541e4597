"""Repeating the recorded iterations, so that work which overlaps the next iteration reaches its steady state."""

from __future__ import annotations

from dataclasses import replace

from skyline.graph.graph import Dependency, Graph, Structure


def stitch(graph: Graph, iterations: int) -> Graph:
    """At least ``iterations`` iterations, one after another on every lane, by repeating the whole graph."""
    recorded = graph.iterations
    copies = max(1, -(-iterations // max(1, len(recorded))))
    if copies == 1:
        return graph
    number = {iteration: position for position, iteration in enumerate(recorded)}
    count = len(graph.tasks)
    tasks = tuple(
        replace(task, iteration=copy * len(recorded) + number[task.iteration])
        for copy in range(copies)
        for task in graph.tasks
    )
    dependencies = tuple(
        Dependency(d.source + copy * count, d.target + copy * count, d.cause, d.lag_us, d.from_start)
        for copy in range(copies)
        for d in graph.structure.dependencies
    )
    return Graph(Structure(tasks, dependencies), graph.durations * copies, graph.gaps * copies)
