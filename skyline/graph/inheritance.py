"""Who goes on waiting, or is waited for, in the place of a neighbour that is removed."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Ids
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND


def with_heirs(graph: Graph, gone: Flags) -> Dependencies:
    """The dependencies, changed where the removal of a task leaves its part in one to a neighbour.

    A hand-off and a wait for an event hold for all that follows on the lane: the next task there that stays waits
    too. So it does for a wait for the GPU in a task that is not itself a synchronisation, for the call before it
    blocked. What any other removed task waited for, nobody on its lane waits for any more.

    A queue has room when work before the removed work of its stream is through, and needs none for removed calls.
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
    """For each task the last before it on its lane that stays, or -1; a task that stays is its own."""
    return _nearest_staying(graph, gone, graph.structure.lane_members)


def staying_behind(graph: Graph, gone: Flags) -> Ids:
    """For each task the first behind it on its lane that stays, or -1; a task that stays is its own."""
    return _nearest_staying(graph, gone, graph.structure.lane_members[::-1])


def _nearest_staying(graph: Graph, gone: Flags, members: Ids) -> Ids:
    """As one comes by them in the order of ``members``. On a lane without an order nobody is near another."""
    last = np.maximum.accumulate(np.where(gone[members], -1, np.arange(len(members))))
    nearest = members[last]
    lane = graph.tasks.lane
    found = np.full(len(graph), -1, np.int32)
    found[members] = np.where((last >= 0) & (lane[nearest] == lane[members]), nearest, -1)
    return found if graph.priorities is None else np.where(np.isnan(graph.priorities), found, -1)
