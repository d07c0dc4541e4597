"""Repetition of the recorded iterations until work that overlaps the next iteration is in its steady state."""

from __future__ import annotations

import numpy as np

from skyline.graph.graph import Graph


def stitch(graph: Graph, iterations: int) -> Graph:
    """Repeat the whole graph to at least ``iterations`` iterations, one after another on every lane."""
    recorded = graph.iterations
    copies = max(1, -(-iterations // max(1, len(recorded))))
    if copies == 1:
        return graph
    count = len(graph)
    tasks = graph.tasks.taken(np.tile(np.arange(count), copies))
    number = np.searchsorted(np.array(recorded), tasks.iteration)
    tasks = tasks.changed(iteration=number + np.repeat(np.arange(copies) * len(recorded), count))
    edges = graph.structure.dependencies
    shift = np.repeat(np.arange(copies) * count, len(edges))
    repeated = edges.taken(np.tile(np.arange(len(edges)), copies))
    return Graph(
        graph.structure.with_parts(tasks, repeated.between(repeated.source + shift, repeated.target + shift)),
        np.tile(graph.durations, copies),
        np.tile(graph.gaps, copies),
    )
