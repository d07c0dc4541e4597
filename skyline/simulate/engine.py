"""Daydream's simulation (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020, algorithm 1) over a fixed lane order."""

from __future__ import annotations

from skyline.graph.graph import Graph
from skyline.simulate.timeline import Timeline


def simulate(graph: Graph) -> Timeline:
    """Start every task as soon as its lane is free and all that it waits for is done.

    The tasks of a lane keep their order, so that taking less time for one task never makes the whole take
    longer. The ready heap of the algorithm has been run once per structure (``Structure.order``); what is
    left is one pass in that order, O(tasks + dependencies).
    """
    structure = graph.structure
    durations, gaps = graph.durations, graph.gaps
    lane_of, incoming = structure.lane_of, structure.incoming
    free = [0.0] * len(structure.lanes)
    starts = [0.0] * len(durations)
    ends = [0.0] * len(durations)
    for index in structure.order:
        lane = lane_of[index]
        start = free[lane]
        for dependency in incoming[index]:
            since = starts[dependency.source] if dependency.from_start else ends[dependency.source]
            ready = since + dependency.lag_us
            start = max(start, ready)
        starts[index] = start
        end = start + durations[index]
        ends[index] = end
        free[lane] = end + gaps[index]
    return Timeline(graph, tuple(starts), tuple(ends))
