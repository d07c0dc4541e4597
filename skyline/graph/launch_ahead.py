"""Restore the lead of the script's thread over its GPU, which the recording removes by waiting each iteration."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.dependency import CAUSE, Cause
from skyline.graph.graph import Graph
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND

_FOR_TIMING = "DeviceSynchronize"
"""The call that waits for the end of an iteration, in recordings and in predictions."""


def ending_waits(graph: Graph, lane: str) -> Indices:
    """The tasks of the script's thread that wait for the GPU at the end of each iteration, in order."""
    tasks = graph.tasks
    waiting = (tasks.kind == KIND[TaskKind.SYNC]) & (tasks.lane == tasks.lane_code(lane))
    found = np.flatnonzero(waiting)
    last = {iteration: place for place, iteration in enumerate(tasks.iteration[found].tolist())}
    ending = [place for place in last.values() if _FOR_TIMING in tasks.names[int(tasks.name[found[place]])]]
    return found[np.array(sorted(ending), np.int64)]


def one_iteration_ahead(graph: Graph, lane: str) -> Graph:
    """The graph of the unrecorded script: the end of an iteration waits for the GPU work of the previous iteration.

    A GPU accepts about a thousand launches before the next one waits, which is one iteration or several. Once the
    script's thread is one iteration ahead, a larger lead does not change the iteration time.
    """
    waits = ending_waits(graph, lane)
    edges = graph.structure.dependencies
    place = np.full(len(graph), -1)
    place[waits] = np.arange(len(waits))
    mine = (place[edges.target] >= 0) & (edges.cause == CAUSE[Cause.SYNC])
    following = place[edges.target] + 1
    moved = mine & (following < len(waits))
    target = edges.target.copy()
    target[moved] = waits[following[moved]]
    return graph.with_dependencies(edges.between(edges.source, target).taken(~mine | moved))
