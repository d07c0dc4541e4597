"""Topological order: every task comes after the tasks that it waits for."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from skyline.compiled import loop
from skyline.graph.column import Ids


class CyclicGraph(ValueError):
    """The dependencies contradict the order of the tasks on their lanes."""


def topological_order(before: Ids, source: Ids, target: Ids) -> Ids:
    """Kahn's algorithm with a heap: ties go to the earlier task, so that runs are reproducible.

    If all dependencies point forward, this is the stored order and no sort is needed. Tasks of a cycle, and tasks
    behind it, are omitted.
    """
    if bool((source < target).all()):
        return np.arange(len(before), dtype=np.int32)
    count = len(before)
    follower = np.full(count, -1, np.int32)
    follows = np.flatnonzero(before >= 0)
    follower[before[follows]] = follows
    leaving_offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(source, minlength=count), out=leaving_offsets[1:])
    leaving_target = target[np.argsort(source, kind="stable")]
    waiting = (np.bincount(target, minlength=count) + (before >= 0)).astype(np.int32)
    order = np.empty(count, np.int32)
    reached = _kahn(count + len(source), follower, leaving_offsets, leaving_target, waiting, order)
    return order[:reached]


@loop("iii", writes="ii")
def _kahn(
    follower: Sequence[int],
    leaving_offsets: Sequence[int],
    leaving_target: Sequence[int],
    waiting: MutableSequence[int],
    order: MutableSequence[int],
) -> int:
    """Fill ``order`` and return the number of tasks reached; ``waiting`` counts the open dependencies of each task."""
    ready = [index for index in range(len(follower)) if waiting[index] == 0]
    heapify(ready)
    reached = 0
    while len(ready) > 0:
        index = heappop(ready)
        order[reached] = index
        reached += 1
        target = follower[index]
        if target >= 0:
            waiting[target] -= 1
            if waiting[target] == 0:
                heappush(ready, target + 0)  # + 0: converts to the integer width of the heap
        for place in range(leaving_offsets[index], leaving_offsets[index + 1]):
            target = leaving_target[place]
            waiting[target] -= 1
            if waiting[target] == 0:
                heappush(ready, target + 0)
    return reached
