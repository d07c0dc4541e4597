"""Relation between GPU work and the script's thread: the calls that launched it, and the lead of the thread."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skyline.graph.column import Indices, indices
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph
from skyline.graph.task import KIND, TaskKind


def launches(graph: Graph) -> Dependencies:
    """The dependencies of GPU work on the calls that launched it."""
    return graph.structure.launches


def launches_of(graph: Graph, chosen: Iterable[int]) -> Indices:
    """The calls that launched only chosen GPU work."""
    found = launches(graph)
    wanted = np.zeros(len(graph), np.bool_)
    wanted[indices(chosen)] = True
    of_chosen = np.bincount(found.source[wanted[found.target]], minlength=len(graph))
    of_all = np.bincount(found.source, minlength=len(graph))
    return np.flatnonzero((of_chosen > 0) & (of_chosen == of_all))


def launched_by(graph: Graph, chosen: Iterable[int]) -> Indices:
    """The GPU work that the chosen calls launched."""
    found = launches(graph)
    wanted = np.zeros(len(graph), np.bool_)
    wanted[indices(chosen)] = True
    return np.unique(found.target[wanted[found.source]]).astype(np.int64)


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
