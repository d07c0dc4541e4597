"""Primitive: tasks are taken out without losing the order that held through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from skyline.graph.arrangement import arranged
from skyline.graph.column import Flags, Ids, Times
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph
from skyline.graph.launching import launches_of
from skyline.graph.scheduling import followed_tasks, is_free
from skyline.graph.selection import indices
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, ON_GPU

_Wait = tuple[int, int, bool]
"""What is waited for: the source, the code of the cause, and whether from the source's start."""
_Waits = dict[_Wait, float]
"""The longest lag for each."""
_HAND_OFF = CAUSE[Cause.HAND_OFF]
_FEW = 16


def remove(graph: Graph, chosen: Iterable[int], *, keep_gaps: bool = True, launches: bool = False) -> Graph:
    """Without the chosen tasks: who waited for one of them waits for what it waited for.

    Waiting that concerns all that follows on a lane (a hand-off between threads, an event) goes over to the next task
    there; what a removed task alone waited for (its launch, a synchronisation) nobody waits for any more.

    The gap of a removed CPU task moves to the task before it on its lane, because Python still runs there,
    unless ``keep_gaps`` is false: then the whole operator goes. The gap of a GPU task is a turnaround and goes
    with it. With ``launches`` the calls go too that launched nothing but chosen work.
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
    structure = graph.structure.with_parts(dependencies=inherited)
    changed = Graph(structure, graph.durations, gaps, graph.priorities)
    return arranged(changed, np.flatnonzero(~gone))


def _gaps_passed_on(graph: Graph, gone: Flags) -> Times:
    """Each removed CPU task's gap is held by the last task before it on its lane that stays."""
    members = graph.structure.lane_members
    stays_at = np.where(~gone[members], np.arange(len(members)), -1)
    holder = members[np.maximum.accumulate(stays_at)]
    giving = gone[members] & ~ON_GPU[graph.tasks.kind[members]]
    # Before the first task that stays, the last one belongs to another lane, or there is none.
    lane = graph.tasks.lane
    giving &= (np.maximum.accumulate(stays_at) >= 0) & (lane[holder] == lane[members])
    gaps = graph.gaps.copy()
    np.add.at(gaps, holder[giving], graph.gaps[members[giving]])
    return gaps


def _reconnected(graph: Graph, gone: Flags) -> Dependencies:
    """The dependencies between tasks that stay, and in the place of the others what held through them."""
    edges = _with_heirs(graph, gone)
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
        # The lane's order is not a dependency, but those who waited for this task relied on it.
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


def _with_heirs(graph: Graph, gone: Flags) -> Dependencies:
    """With the waiting that goes over to the next task of the lane when the one that began it is removed.

    A hand-off and a wait for an event hold for all that follows on the lane. So does a wait for the GPU in a task
    that is not itself a synchronisation: the call before it blocked. What any other removed task waited for, nobody
    on its lane waits for any more.
    """
    edges = graph.structure.dependencies
    held = (edges.cause == CAUSE[Cause.SYNC]) & (graph.tasks.kind[edges.target] != KIND[TaskKind.SYNC])
    lasting = gone[edges.target] & (np.isin(edges.cause, (_HAND_OFF, CAUSE[Cause.EVENT])) | held)
    if not lasting.any():
        return edges
    passed_on = edges.taken(lasting)
    heir = _next_staying(graph, gone)[passed_on.target]
    inherited = passed_on.between(passed_on.source, heir).taken((heir >= 0) & (heir != passed_on.source))
    return edges.joined(inherited)


def _next_staying(graph: Graph, gone: Flags) -> Ids:
    """For each task the first behind it on its lane that stays, or -1; nobody is behind another on a free lane."""
    members = graph.structure.lane_members[::-1]
    stays_at = np.maximum.accumulate(np.where(~gone[members], np.arange(len(members)), -1))
    lane = graph.tasks.lane
    found = np.full(len(graph), -1, np.int32)
    found[members] = np.where(
        (stays_at >= 0) & (lane[members[stays_at]] == lane[members]), members[stays_at], -1
    )
    return found if graph.priorities is None else np.where(np.isnan(graph.priorities), found, -1)


def _asked_for(
    edges: Dependencies, gone: Flags, arriving: Mapping[int, list[tuple[_Wait, float]]], followed: Ids
) -> Flags:
    """The removed tasks that something which stays waited for, by way of other removed ones or not."""
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
    """What is waited for, with what the removed tasks among it waited for in their place."""
    found: _Waits = {}
    for (source, cause, from_start), lag_us in arrived:
        if source in waits:
            # As long after what the removed task waited for, and for the reason that it waited.
            _add(found, {(s, cause, f): lag_us + further for (s, _, f), further in waits[source].items()})
        else:
            _add(found, {(source, cause, from_start): lag_us})
    return found


def _add(found: _Waits, more: _Waits) -> None:
    for wait, lag_us in more.items():
        found[wait] = max(lag_us, found.get(wait, lag_us))


def _without_implied(found: _Waits, graph: Graph) -> _Waits:
    """On a lane that keeps its order, waiting for a later task includes waiting, no longer, for an earlier one."""
    longest: dict[tuple[int, bool], float] = {}
    kept: _Waits = {}
    for wait, lag_us in sorted(found.items(), key=lambda item: (-item[0][0], -item[1])):
        source, _, from_start = wait
        key = (int(graph.tasks.lane[source]), from_start)
        if is_free(graph, source) or lag_us > longest.get(key, -1.0):
            kept[wait] = lag_us
            longest[key] = max(lag_us, longest.get(key, lag_us))
    return kept
