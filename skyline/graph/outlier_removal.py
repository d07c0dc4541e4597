"""Single hold-ups taken out: what an operator took once, and in no other of the recorded iterations."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph

_LEAST_ITERATIONS = 3
_HELD_UP, _HELD_UP_US = 3.0, 500.0
"""What takes so many times as long as in the middle of all iterations, and so much longer, was held up by something
else: few iterations are recorded, and one operator held up for 15 ms would count for a tenth of all."""


def steadied(graph: Graph) -> Graph:
    """Tasks, and the Python behind them, that were held up take what they do in the iteration in the middle.

    Compared are tasks of one name, module, phase and lane, the first of an iteration with the first of the others and
    so on. With fewer than three iterations to compare, everything stays.
    """
    if len(graph.iterations) < _LEAST_ITERATIONS:
        return graph
    alike = _alike(graph)
    return graph.with_times(_settled(graph.durations, alike), _settled(graph.gaps, alike))


def _alike(graph: Graph) -> Indices:
    """By task, the number of the group that it is compared with."""
    tasks = graph.tasks
    columns = np.stack([tasks.name, tasks.module, tasks.phase, tasks.lane, tasks.iteration])
    _, of_iteration = np.unique(columns, axis=1, return_inverse=True)
    place = np.empty(len(graph), np.int64)
    order = np.argsort(of_iteration, kind="stable")
    _, first, counts = np.unique(of_iteration[order], return_index=True, return_counts=True)
    place[order] = np.arange(len(graph)) - np.repeat(first, counts)
    _, group = np.unique(np.vstack([columns[:-1], place]), axis=1, return_inverse=True)
    return group


def _settled(times_us: Times, group: Indices) -> Times:
    order = np.lexsort((times_us, group))
    _, first, counts = np.unique(group[order], return_index=True, return_counts=True)
    middle = times_us[order[first + (counts - 1) // 2]]
    usual_us, known = middle[group], counts[group] >= _LEAST_ITERATIONS
    held_up = known & (times_us > _HELD_UP * usual_us + _HELD_UP_US)
    return np.where(held_up, usual_us, times_us)
