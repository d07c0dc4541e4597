"""Removal of outliers: delays of an operator in a single recorded iteration."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph

_LEAST_ITERATIONS = 3
_HELD_UP, _HELD_UP_US = 3.0, 500.0
"""A task is an outlier if it exceeds the median over the iterations by this factor and by this time, in µs. Few
iterations are recorded: without removal, one delay of 15 ms can add a tenth to the total."""


def steadied(graph: Graph) -> Graph:
    """Delayed tasks, and the Python time behind them, take the median of their iterations.

    Tasks are compared if name, module, phase and lane agree, in order within the iteration. With fewer than three
    iterations, nothing changes.
    """
    if len(graph.iterations) < _LEAST_ITERATIONS:
        return graph
    alike = _alike(graph)
    return graph.with_times(_settled(graph.durations, alike), _settled(graph.gaps, alike))


def _alike(graph: Graph) -> Indices:
    """For each task the number of its comparison group."""
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
