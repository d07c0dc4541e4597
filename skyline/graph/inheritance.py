"""Transfer of dependencies from removed tasks to their neighbours."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Ids
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND


def with_heirs(graph: Graph, gone: Flags) -> Dependencies:
    """The dependencies after the removal of tasks; a neighbour takes over where a dependency outlives its task.

    A hand-off and a wait for an event hold for all later work on the lane, so they move to the next remaining task.
    A wait for the GPU also moves if its task is not a synchronisation: the call before it blocked. All other
    waits of removed tasks are dropped.

    A queue has space when the work before the removed work of its stream is done. Removed calls need no space.
    """
    edges = graph.structure.dependencies
    queue = edges.cause == CAUSE[Cause.QUEUE]
    if (queue & (gone[edges.source] | gone[edges.target])).any():
        source = np.where(queue & gone[edges.source], staying_before(graph, gone)[edges.source], edges.source)
        edges = edges.between(source, edges.target).taken(~queue | ((source >= 0) & ~gone[edges.target]))
    held = (edges.cause == CAUSE[Cause.SYNC]) & (graph.tasks.kind[edges.target] != KIND[TaskKind.SYNC])
    lasting = gone[edges.target] & (np.isin(edges.cause, (CAUSE[Cause.HAND_OFF], CAUSE[Cause.EVENT])) | held)
    if not lasting.any():
        return edges
    passed_on = edges.taken(lasting)
    heir = staying_behind(graph, gone)[passed_on.target]
    inherited = passed_on.between(passed_on.source, heir)
    return edges.joined(inherited.taken((heir >= 0) & (heir != passed_on.source)))


def staying_before(graph: Graph, gone: Flags) -> Ids:
    """For each task the last remaining one at or before it on its lane, or -1."""
    return _nearest_staying(graph, gone, graph.structure.lane_members)


def staying_behind(graph: Graph, gone: Flags) -> Ids:
    """For each task the first remaining one at or after it on its lane, or -1."""
    return _nearest_staying(graph, gone, graph.structure.lane_members[::-1])


def _nearest_staying(graph: Graph, gone: Flags, members: Ids) -> Ids:
    """The nearest remaining task in the order of ``members``; -1 on lanes without an order."""
    last = np.maximum.accumulate(np.where(gone[members], -1, np.arange(len(members))))
    nearest = members[last]
    lane = graph.tasks.lane
    found = np.full(len(graph), -1, np.int32)
    found[members] = np.where((last >= 0) & (lane[nearest] == lane[members]), nearest, -1)
    return found if graph.priorities is None else np.where(np.isnan(graph.priorities), found, -1)
