"""Daydream's simulation (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020, algorithm 1)."""

from __future__ import annotations

from skyline.graph.graph import Graph
from skyline.simulate.fixed_order import is_few, run, run_few
from skyline.simulate.timeline import Timeline


def simulate(graph: Graph) -> Timeline:
    """Start every task as soon as its lane is free and all that it waits for is done.

    The tasks of a lane keep their order, so that taking less time for one task never makes the whole take
    longer. The ready heap of the algorithm has been run once per structure (``Structure.order``); what is
    left is one pass in that order, O(tasks + dependencies).
    """
    structure = graph.structure
    if is_few(len(structure)):
        few = run_few(structure.visits, len(structure.lanes), graph.durations, graph.gaps)
        return Timeline(graph, *few)
    starts, ends = run(
        structure.order,
        structure.lane_of,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        graph.durations,
        graph.gaps,
        len(structure.lanes),
    )
    return Timeline(graph, starts, ends)
