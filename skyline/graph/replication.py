"""Primitive: repeat part of the work, as in gradient accumulation or activation recomputation, or all of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skyline.graph.column import Indices, indices
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph, arranged, extended


def replicate(graph: Graph, chosen: Iterable[int], times: int, *, before: Iterable[int] = ()) -> Graph:
    """Run the chosen tasks ``times`` times in total, one round after another.

    On each lane the copies follow the last chosen task there. On a lane with a task of ``before``, they precede
    the first such task. Dependencies among the chosen tasks hold within each round. The first round waits for the
    external dependencies of the chosen tasks; later rounds follow it. External tasks that waited for the chosen
    tasks wait for the last round. If another thread took over from the chosen tasks (``Cause.HAND_OFF``), the next
    round waits for that thread, as in the program.

    Choose GPU work together with its launches; otherwise the copies have none. Choose intermediate tasks too: an
    external task between two chosen tasks would have to run both before and after the rounds. The first access of
    the order of such a cyclic graph raises ``CyclicGraph``. ``times=1`` changes nothing.

    Raises:
        ValueError: ``times`` is less than 1.
    """
    if times < 1:
        raise ValueError("times is less than 1; use remove() to remove work")
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
    """For each chosen task the index of the task before which its copies are placed."""
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
    # External tasks wait for the last round.
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
    """For each hand-off to a task behind the chosen ones of its lane, the first chosen one; -1 for all others."""
    lane = graph.tasks.lane
    head = np.full(len(graph.tasks.lanes), len(graph), np.int64)
    last = np.full(len(graph.tasks.lanes), len(graph), np.int64)
    np.minimum.at(head, lane[rows], rows)
    last[lane[rows]] = -1
    np.maximum.at(last, lane[rows], rows)
    of_target = lane[hand_offs.target]
    return np.where(hand_offs.target > last[of_target], head[of_target], -1)


def stitch(graph: Graph, iterations: int) -> Graph:
    """Repeat the whole graph to at least ``iterations`` iterations, one after another on every lane."""
    recorded = graph.iterations
    copies = max(1, -(-iterations // max(1, len(recorded))))
    if copies == 1:
        return graph
    count = len(graph)
    tasks = graph.tasks.taken(np.tile(np.arange(count), copies))
    number = np.searchsorted(np.array(recorded), tasks.iteration)
    tasks = tasks.changed(iteration=number + np.repeat(np.arange(copies) * len(recorded), count))
    edges = graph.structure.dependencies
    shift = np.repeat(np.arange(copies) * count, len(edges))
    repeated = edges.taken(np.tile(np.arange(len(edges)), copies))
    priorities = None if graph.priorities is None else np.tile(graph.priorities, copies)
    return Graph(
        graph.structure.with_parts(tasks, repeated.between(repeated.source + shift, repeated.target + shift)),
        np.tile(graph.durations, copies),
        np.tile(graph.gaps, copies),
        priorities,
    )
