"""Scheduling: the choice among several ready tasks while a graph runs.

Algorithm 1 of Daydream (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020): of all tasks that wait for nothing
more, take the one that can start first, unless the caller's own rule selects another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableSequence, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from skyline.compiled import loop
from skyline.graph.column import Flags, Ids, Times
from skyline.graph.dependency import CyclicGraph
from skyline.graph.graph import Graph, Structure
from skyline.simulate.engine import Timeline


class Leaving(NamedTuple):
    """Dependencies by their source: the tasks that wait for task ``i`` are ``offsets[i]`` to ``offsets[i + 1]``.

    ``waiting`` is the number of dependencies of each task.
    """

    offsets: Ids
    target: Ids
    lag: Times
    from_start: Flags
    waiting: Ids


def leaving(structure: Structure, keeps_order: Flags) -> Leaving:
    """The dependencies by their source. ``keeps_order`` has one flag per lane: its tasks start in their stored order.

    That order becomes a dependency on the start of the previous task, because the lane may have room for
    both.
    """
    dependencies, before = structure.dependencies, structure.before
    count = len(structure)
    follows = (
        np.flatnonzero((before >= 0) & keeps_order[structure.lane_of]) if count else np.empty(0, np.intp)
    )
    source = np.concatenate((dependencies.source, before[follows]))
    target = np.concatenate((dependencies.target, follows.astype(np.int32)))
    lag = np.concatenate((dependencies.lag_us, np.zeros(len(follows))))
    from_start = np.concatenate((dependencies.from_start, np.ones(len(follows), np.bool_)))
    places = np.argsort(source, kind="stable")
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(source, minlength=count), out=offsets[1:])
    waiting = np.bincount(target, minlength=count).astype(np.int32)
    return Leaving(offsets, target[places], lag[places], from_start[places], waiting)


Pick = Callable[[Sequence[int], Sequence[float]], int]
"""Takes the tasks that wait for nothing more and the time at which each could start, in µs. Returns the
position of the task to run next among them."""


def schedule(
    graph: Graph,
    *,
    servers: Mapping[str, int] | None = None,
    any_order: Collection[str] = (),
    pick: Pick | None = None,
) -> Timeline:
    """Run a graph in which some lanes have no order, or run several tasks at the same time.

    A lane is open if its tasks have priorities (``Graph.priorities``). Whenever it is free, the ready task
    with the highest priority runs first; ties go to the earlier task. On other lanes, tasks start in their
    stored order. No task waits for a more important one that is not ready yet.

    Args:
        graph: The graph to run.
        servers: By lane name, the number of tasks that run in parallel; one on all other lanes.
        any_order: Further open lanes, whose tasks have equal priority.
        pick: A rule that selects the next task among the ready ones of all lanes instead. It is called once per
            task with all ready tasks, so it suits small graphs only.

    Raises:
        CyclicGraph: a task waits for itself.
    """
    structure = graph.structure
    lanes = structure.lanes
    priorities = _priorities(graph, any_order)
    is_open = np.zeros(len(lanes), np.bool_)
    is_open[structure.lane_of[~np.isnan(priorities)]] = True
    count = len(graph)
    edges = leaving(structure, keeps_order=~is_open)
    slots = np.ones(len(lanes), np.int32)
    for lane, number in (servers or {}).items():
        if number < 1:
            raise ValueError(f"{lane} has {number} servers")
        if lane in lanes:
            slots[lanes.index(lane)] = number
    starts, ends = np.zeros(count), np.zeros(count)
    before, order = np.full(count, -1, np.int32), np.zeros(count, np.int32)
    rank = np.where(np.isnan(priorities), 0.0, -priorities)
    if pick is None:
        ran = _run_by_rank(
            4 * count + len(edges.target),
            structure.lane_of,
            edges.offsets,
            edges.target,
            edges.lag,
            edges.from_start,
            graph.durations,
            graph.gaps,
            rank,
            slots,
            edges.waiting.copy(),
            np.zeros(count),
            starts,
            ends,
            before,
            order,
        )
    else:
        ran = _run_by_pick(graph, edges, slots, pick, starts, ends, before, order)
    if ran < count:
        raise CyclicGraph("a task waits for itself")
    return Timeline(graph, starts, ends, before_otherwise=before, order_otherwise=order)


def _priorities(graph: Graph, any_order: Collection[str]) -> Times:
    structure = graph.structure
    given = graph.priorities if graph.priorities is not None else np.full(len(graph), np.nan)
    chosen = [number for number, lane in enumerate(structure.lanes) if lane in any_order]
    opened: Flags = np.isin(structure.lane_of, np.array(chosen, np.int32)) & np.isnan(given)
    return np.where(opened, 0.0, given)


@loop("iiifbfffi", writes="ifffii", allocates=True)
def _run_by_rank(
    lane_of: Sequence[int],
    offsets: Sequence[int],
    targets: Sequence[int],
    lags: Sequence[float],
    from_start: Sequence[bool],
    durations: Sequence[float],
    gaps: Sequence[float],
    rank: Sequence[float],
    slots: Sequence[int],
    waiting: MutableSequence[int],
    ready: MutableSequence[float],
    starts: MutableSequence[float],
    ends: MutableSequence[float],
    before: MutableSequence[int],
    order: MutableSequence[int],
) -> int:
    """Repeatedly take the lane that can start a task first, and on it the ready task with the lowest rank.

    ``coming`` are tasks that were not ready when their lane was last examined (at ``looked``), ``present``
    those that were. ``free`` is the time at which each of the lane's servers is free, with its last task.
    ``soonest`` is the time at which each lane can start a task. ``clock`` is a heap of these times, some of
    them out of date.
    """
    coming = [[(0.0, 0)] for _ in range(len(slots))]
    present = [[(0.0, 0)] for _ in range(len(slots))]
    free = [[(0.0, -1)] for _ in range(len(slots))]
    soonest = [-1.0 for _ in range(len(slots))]
    looked = [0.0 for _ in range(len(slots))]
    for lane in range(len(slots)):
        coming[lane].pop()
        present[lane].pop()
        for _ in range(slots[lane] - 1):
            free[lane].append((0.0, -1))
    clock = [(0.0, 0)]
    clock.pop()
    for index in range(len(durations)):
        if waiting[index] == 0:
            heappush(coming[lane_of[index]], (ready[index], index))
    for lane in range(len(slots)):
        if len(coming[lane]) > 0:
            soonest[lane] = max(0.0, coming[lane][0][0])
            heappush(clock, (soonest[lane], lane))
    ran = 0
    while len(clock) > 0:
        now, lane = heappop(clock)
        if now != soonest[lane]:
            continue
        looked[lane] = now
        while len(coming[lane]) > 0 and coming[lane][0][0] <= now:
            index = heappop(coming[lane])[1]
            heappush(present[lane], (rank[index], index))
        index = heappop(present[lane])[1]
        order[ran] = index
        ran += 1
        before[index] = heappop(free[lane])[1]
        end = now + durations[index]
        starts[index] = now
        ends[index] = end
        heappush(free[lane], (end + gaps[index], index))
        for place in range(offsets[index], offsets[index + 1]):
            target = targets[place] + 0  # ``+ 0`` converts to the integer width of the heap
            since = now if from_start[place] else end
            ready[target] = max(ready[target], since + lags[place])
            waiting[target] -= 1
            if waiting[target] == 0:
                other = lane_of[target]
                heappush(coming[other], (ready[target], target))
                if other != lane:
                    # Present tasks were ready when the lane was last examined.
                    came = looked[other] if len(present[other]) > 0 else coming[other][0][0]
                    first = max(free[other][0][0], came)
                    if first != soonest[other]:
                        soonest[other] = first
                        heappush(clock, (first, other + 0))
        if len(present[lane]) > 0:
            soonest[lane] = max(free[lane][0][0], now)
        elif len(coming[lane]) > 0:
            soonest[lane] = max(free[lane][0][0], coming[lane][0][0])
        else:
            soonest[lane] = -1.0
            continue
        heappush(clock, (soonest[lane], lane))
    return ran


def _run_by_pick(
    graph: Graph,
    edges: Leaving,
    slots: Ids,
    pick: Pick,
    starts: Times,
    ends: Times,
    before: Ids,
    order: Ids,
) -> int:
    lane_of: list[int] = graph.structure.lane_of.tolist()
    free: list[list[tuple[float, int]]] = [[(0.0, -1)] * slot for slot in slots.tolist()]
    waiting, ready = edges.waiting.copy(), np.zeros(len(graph))
    frontier = np.flatnonzero(waiting == 0).tolist()
    ran = 0
    while frontier:
        could = [max(float(ready[index]), free[lane_of[index]][0][0]) for index in frontier]
        chosen = pick(tuple(frontier), tuple(could))
        start, index = could[chosen], frontier.pop(chosen)
        order[ran] = index
        ran += 1
        before[index] = heappop(free[lane_of[index]])[1]
        end = start + float(graph.durations[index])
        starts[index], ends[index] = start, end
        heappush(free[lane_of[index]], (end + float(graph.gaps[index]), index))
        for place in range(edges.offsets[index], edges.offsets[index + 1]):
            target = int(edges.target[place])
            since = start if edges.from_start[place] else end
            ready[target] = max(ready[target], since + edges.lag[place])
            waiting[target] -= 1
            if waiting[target] == 0:
                frontier.append(target)
    return ran
