"""Graphs with their tasks reordered, left out or added."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.dependency import Dependencies
from skyline.graph.graph import Graph
from skyline.graph.tasks import Tasks


def arranged(graph: Graph, rows: Indices) -> Graph:
    """The graph of the tasks ``rows`` in the given order. Dependencies of omitted tasks are dropped.

    Each row occurs at most once.
    """
    place = np.full(len(graph), -1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    edges = graph.structure.dependencies
    source, target = place[edges.source], place[edges.target]
    kept = (source >= 0) & (target >= 0)
    moved = edges.taken(kept).between(source[kept], target[kept])
    return Graph(
        graph.structure.with_parts(graph.tasks.taken(rows), moved),
        graph.durations[rows],
        graph.gaps[rows],
    )


def extended(graph: Graph, tasks: Tasks, durations: Times, gaps: Times, dependencies: Dependencies) -> Graph:
    """The graph with further tasks at its end and exactly these dependencies."""
    return Graph(
        graph.structure.with_parts(graph.tasks.joined(tasks), dependencies),
        np.concatenate((graph.durations, durations)),
        np.concatenate((graph.gaps, gaps)),
    )
