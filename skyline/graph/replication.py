"""Primitive: part of the work is done several times, as when gradients are accumulated or activations recomputed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skyline.graph.arrangement import arranged, extended
from skyline.graph.column import Indices
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph
from skyline.graph.selection import indices


def replicate(graph: Graph, chosen: Iterable[int], times: int, *, before: Iterable[int] = ()) -> Graph:
    """The chosen tasks run ``times`` times in all, one round after another.

    On each lane the copies stand behind the last of the chosen tasks there; on a lane that holds a task of
    ``before``, they stand before the first such one. Dependencies among the chosen tasks hold within each round.
    What the chosen tasks waited for outside, the first round waits for, and the others run behind it. What outside
    waited for them waits for the last round. Where another thread took over from them (``Cause.HAND_OFF``), the
    next round waits for that, as the program would.

    Choose work on a GPU together with its launches, or the copies need none. Choose also what lies between: work
    outside that waits for a chosen task and that a chosen task waits for would be both before and after the rounds, a
    cycle (``CyclicGraph``, raised when the order is first asked for). ``times=1`` changes nothing.

    Raises:
        ValueError: ``times`` is less than 1.
    """
    if times < 1:
        raise ValueError("work that runs less than once is removed")
    rows = np.unique(indices(chosen))
    if times == 1 or not len(rows):
        return graph
    count, size, further = len(graph), len(rows), times - 1
    within = np.full(count, -1, np.int64)
    within[rows] = np.arange(size)
    copies = np.tile(rows, further)
    grown = extended(
        graph,
        graph.tasks.taken(copies),
        graph.durations[copies],
        graph.gaps[copies],
        _dependencies(graph, within, rows, further),
    )
    if graph.priorities is not None and grown.priorities is not None:
        grown = grown.with_times(priorities=np.concatenate((graph.priorities, graph.priorities[copies])))
    slots = np.tile(_slots(graph, rows, indices(before)), further)
    return arranged(grown, np.insert(np.arange(count), slots, count + np.arange(len(slots))))


def _slots(graph: Graph, rows: Indices, before: Indices) -> Indices:
    """For each chosen task where in the list its copies stand: before the task with this index."""
    lane = graph.tasks.lane
    lanes = len(graph.tasks.lanes)
    behind = np.zeros(lanes, np.int64)
    np.maximum.at(behind, lane[rows], rows + 1)
    ahead = np.full(lanes, len(graph), np.int64)
    np.minimum.at(ahead, lane[before], before)
    given = np.zeros(lanes, np.bool_)
    given[lane[before]] = True
    return np.where(given, ahead, behind)[lane[rows]]


def _dependencies(graph: Graph, within: Indices, rows: Indices, further: int) -> Dependencies:
    edges = graph.structure.dependencies
    count, size = len(graph), len(rows)
    from_inside, to_inside = within[edges.source] >= 0, within[edges.target] >= 0
    inner = edges.taken(from_inside & to_inside)
    outgoing = from_inside & ~to_inside
    # Whoever waited outside waits for the last round.
    source = edges.source.astype(np.int64)
    source[outgoing] = count + (further - 1) * size + within[edges.source[outgoing]]
    parts = [edges.between(source, edges.target)]
    hand_offs = edges.taken(outgoing & (edges.cause == CAUSE[Cause.HAND_OFF]))
    resumed = _resumed(graph, rows, hand_offs)
    handed = hand_offs.taken(resumed >= 0)
    heads = resumed[resumed >= 0]
    for number in range(further):
        first = count + number * size
        parts.append(inner.between(first + within[inner.source], first + within[inner.target]))
        last_round = handed.source if number == 0 else first - size + within[handed.source]
        parts.append(handed.between(last_round, first + within[heads]))
    return parts[0].joined(*parts[1:])


def _resumed(graph: Graph, rows: Indices, hand_offs: Dependencies) -> Indices:
    """For each hand-off to a task behind the chosen ones of its lane, the first of those; -1 for all others."""
    lane = graph.tasks.lane
    head = np.full(len(graph.tasks.lanes), len(graph), np.int64)
    last = np.full(len(graph.tasks.lanes), len(graph), np.int64)
    np.minimum.at(head, lane[rows], rows)
    last[lane[rows]] = -1
    np.maximum.at(last, lane[rows], rows)
    of_target = lane[hand_offs.target]
    return np.where(hand_offs.target > last[of_target], head[of_target], -1)
