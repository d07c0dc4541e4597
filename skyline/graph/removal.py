"""Primitive: remove tasks and keep the order that they imposed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from skyline.graph.column import Flags, Ids, Times, indices
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph, arranged
from skyline.graph.launching import launches_of
from skyline.graph.scheduling import followed_tasks, is_free
from skyline.graph.task import KIND, ON_GPU, TaskKind

_Wait = tuple[int, int, bool]
"""A dependency of a task: the source, the code of the cause, and whether it counts from the source's start."""
_Waits = dict[_Wait, float]
"""The longest lag of each dependency."""
_HAND_OFF = CAUSE[Cause.HAND_OFF]
_FEW = 16


def remove(graph: Graph, chosen: Iterable[int], *, keep_gaps: bool = True, launches: bool = False) -> Graph:
    """Remove the chosen tasks; tasks that waited for a removed task wait for its dependencies instead.

    A wait that holds for all later work on a lane (a hand-off between threads, an event) moves to the next task
    there. A wait of the removed task alone (its launch, a synchronisation) is dropped.

    The gap of a removed CPU task moves to the previous task on its lane, because that Python code still runs. With
    ``keep_gaps=False`` the gap is removed too, as for a whole operator. The gap of a GPU task is a turnaround and
    is always removed. With ``launches``, calls that launched only chosen work are removed too.
    """
    places = indices(chosen)
    if launches:
        places = np.concatenate((places, launches_of(graph, places)))
    gone = np.zeros(len(graph), np.bool_)
    gone[places] = True
    if not gone.any():
        return graph
    gaps = _gaps_passed_on(graph, gone) if keep_gaps else graph.gaps
    inherited = _reconnected(graph, gone)
    return arranged(graph.with_dependencies(inherited).with_times(gaps=gaps), np.flatnonzero(~gone))


def _gaps_passed_on(graph: Graph, gone: Flags) -> Times:
    """Add the gap of each removed CPU task to the last remaining task before it on its lane, if there is one."""
    giving = np.flatnonzero(gone & ~ON_GPU[graph.tasks.kind])
    holder = staying_before(graph, gone)[giving]
    gaps = graph.gaps.copy()
    np.add.at(gaps, holder[holder >= 0], graph.gaps[giving[holder >= 0]])
    return gaps


def _reconnected(graph: Graph, gone: Flags) -> Dependencies:
    """The dependencies between remaining tasks, including those that held through removed tasks."""
    edges = with_heirs(graph, gone)
    touched = gone[edges.source] | gone[edges.target]
    arriving: dict[int, list[tuple[_Wait, float]]] = {}
    broken = edges.taken(touched)
    for source, target, cause, from_start, lag_us in zip(
        broken.source.tolist(),
        broken.target.tolist(),
        broken.cause.tolist(),
        broken.from_start.tolist(),
        broken.lag_us.tolist(),
        strict=True,
    ):
        arriving.setdefault(target, []).append(((source, cause, from_start), lag_us))
    followed = followed_tasks(graph)
    order = graph.structure.order
    waits: dict[int, _Waits] = {}
    for index in order[_asked_for(edges, gone, arriving, followed)[order]].tolist():
        found = _resolved(arriving.get(index, ()), waits)
        # The lane's order is not a dependency, but tasks that waited for this one relied on it.
        before = int(followed[index])
        if before >= 0:
            _add(found, waits.get(before, {(before, _HAND_OFF, False): 0.0}))
        waits[index] = _without_implied(found, graph) if len(found) > _FEW else found
    lane = graph.tasks.lane
    rows = [
        (wait[0], target, wait[1], lag_us, wait[2])
        for target, arrived in arriving.items()
        if not gone[target]
        for wait, lag_us in _resolved(arrived, waits).items()
        if lane[wait[0]] != lane[target] or is_free(graph, target)
    ]
    kept = edges.taken(~touched)
    return kept.joined(Dependencies.columns(*map(np.array, zip(*rows, strict=True)))) if rows else kept


def _asked_for(
    edges: Dependencies, gone: Flags, arriving: Mapping[int, list[tuple[_Wait, float]]], followed: Ids
) -> Flags:
    """The removed tasks that a remaining task waited for, directly or through other removed tasks."""
    asked = np.zeros(len(gone), np.bool_)
    asked[edges.source[gone[edges.source] & ~gone[edges.target]]] = True
    open_tasks = np.flatnonzero(asked).tolist()
    while open_tasks:
        index = open_tasks.pop()
        for further in (int(followed[index]), *(wait[0] for wait, _ in arriving.get(index, ()))):
            if further >= 0 and gone[further] and not asked[further]:
                asked[further] = True
                open_tasks.append(further)
    return asked


def _resolved(arrived: Iterable[tuple[_Wait, float]], waits: Mapping[int, _Waits]) -> _Waits:
    """The dependencies, with each removed task replaced by its own dependencies."""
    found: _Waits = {}
    for (source, cause, from_start), lag_us in arrived:
        if source in waits:
            # The replacement keeps the lag and the cause of the removed task's dependency.
            _add(found, {(s, cause, f): lag_us + further for (s, _, f), further in waits[source].items()})
        else:
            _add(found, {(source, cause, from_start): lag_us})
    return found


def _add(found: _Waits, more: _Waits) -> None:
    for wait, lag_us in more.items():
        found[wait] = max(lag_us, found.get(wait, lag_us))


def _without_implied(found: _Waits, graph: Graph) -> _Waits:
    """Omit implied waits: on a lane in order, waiting for a later task includes waiting for an earlier one."""
    longest: dict[tuple[int, bool], float] = {}
    kept: _Waits = {}
    for wait, lag_us in sorted(found.items(), key=lambda item: (-item[0][0], -item[1])):
        source, _, from_start = wait
        key = (int(graph.tasks.lane[source]), from_start)
        if is_free(graph, source) or lag_us > longest.get(key, -1.0):
            kept[wait] = lag_us
            longest[key] = max(lag_us, longest.get(key, lag_us))
    return kept


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
