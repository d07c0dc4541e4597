"""A rank's graph reduced to its collectives: all that other ranks can feel of it, in a thousandth of the memory."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

import numpy as np
import numpy.typing as npt

from skyline.compiled import loop
from skyline.job.rank_graph import Links, RankGraph, linked

_NEVER = -1e300
_NEAR = 16
"""A link is compared with detours over this many of the collectives before its end."""


def reduced(rank: RankGraph) -> RankGraph:
    """The same rank, with everything between two of its collectives as one least time.

    Simulation under a fixed order adds and takes maxima, nothing else, so the reduction is exact: however long
    the collectives come to take, arrivals at them and ends of steps come out as in the whole graph. What is
    no longer there are the tasks: a change of a task is made before the reduction.
    """
    kept = np.flatnonzero(rank.exchange >= 0)
    exchange = rank.exchange[kept]
    lags = np.concatenate([_lags(rank, exchange), _lags(rank, exchange, by_start=True)[1:]])
    source, target = _needed(lags, len(exchange))
    by_start = source > len(exchange)
    links = Links(
        np.where(by_start, source - len(exchange), source), target + 1, lags[source, target], by_start
    )
    lane_of = rank.graph.structure.lane_of[exchange]
    lanes, lane = np.unique(lane_of, return_inverse=True)
    names = tuple(rank.graph.structure.lanes[int(number)] for number in lanes)
    graph = linked(links, rank.graph.durations[exchange], lane, names, len(rank.step_end))
    place = np.full(len(rank.exchange), -1, np.int64)
    place[kept] = np.arange(1, len(kept) + 1)
    steps = np.arange(len(kept) + 1, len(kept) + 1 + len(rank.step_end))
    return RankGraph(graph, place, steps, rank.begin_us, rank.pace, reduced=True)


def _lags(
    rank: RankGraph, exchange: npt.NDArray[np.int64], *, by_start: bool = False
) -> npt.NDArray[np.float64]:
    """``[source, target]``: the least time, without passing another exchange; targets are exchanges and steps' ends.

    Source 0 is the beginning. With ``by_start`` the others are left when the rank arrives, not when they end.
    """
    structure = rank.graph.structure
    count = len(rank.graph)
    cut = np.zeros(count, np.bool_)
    cut[exchange] = True
    sources = np.append(-1, exchange).astype(np.int32)
    if by_start:
        # Few graphs have anything that waits for the beginning of an exchange: only those sources are asked.
        leaving = structure.dependencies.source[structure.dependencies.from_start]
        asked = np.isin(sources, leaving)
    else:
        asked = np.ones(len(sources), np.bool_)
    targets = np.concatenate([exchange, rank.step_end]).astype(np.int32)
    found = np.full((len(sources), len(targets)), _NEVER)
    chosen = np.flatnonzero(asked)
    if not len(chosen) or not len(targets):
        return found
    position = np.empty(count, np.int32)
    position[structure.order] = np.arange(count, dtype=np.int32)
    out = np.full(len(chosen) * len(targets), _NEVER)
    _reach(
        len(chosen) * count,
        structure.order,
        position,
        structure.before,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        rank.graph.durations,
        rank.graph.gaps,
        cut,
        sources[chosen],
        targets,
        len(exchange),
        int(by_start),
        np.empty(count),
        np.empty(count),
        np.empty(count),
        np.empty(count),
        out,
    )
    found[chosen] = out.reshape(len(chosen), len(targets))
    return found


def _needed(
    lags: npt.NDArray[np.float64], exchanges: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The links without which something could come out earlier: not those that a detour outlasts in any case."""
    there = lags > _NEVER / 2
    end_to = lags[: exchanges + 1]
    for target in range(lags.shape[1]):
        via_end = end_to[1:, target]
        near = np.flatnonzero(via_end > _NEVER / 2)
        near = near[near != target][-_NEAR:]
        for middle in near.tolist():
            detour = lags[:, middle] + via_end[middle]
            there[:, target] &= ~((lags[:, target] <= detour) & (lags[:, middle] > _NEVER / 2))
    source, target = np.nonzero(there)
    return source, target


@loop("iiiiifbffbiinn", writes="fffff")
def _reach(
    order: Sequence[int],
    position: Sequence[int],
    before: Sequence[int],
    incoming_offsets: Sequence[int],
    incoming_source: Sequence[int],
    incoming_lag: Sequence[float],
    incoming_from_start: Sequence[bool],
    durations: Sequence[float],
    gaps: Sequence[float],
    cut: Sequence[bool],
    sources: Sequence[int],
    targets: Sequence[int],
    exchanges: int,
    by_start: int,
    starts: MutableSequence[float],
    ends: MutableSequence[float],
    freed: MutableSequence[float],
    arrivals: MutableSequence[float],
    out: MutableSequence[float],
) -> int:
    """For each source a pass over all that comes after it; what does not come from the source never comes.

    The first targets are exchanges, reached on arrival; through those nothing is left. The others are reached
    when they start.
    """
    never = -1e300
    for number in range(len(sources)):
        origin = sources[number]
        for index in range(len(order)):
            starts[index] = never
            ends[index] = never
            freed[index] = never
            arrivals[index] = never
        first = 0
        if origin >= 0:
            first = position[origin] + 1
            if by_start == 1:
                starts[origin] = 0.0
            else:
                ends[origin] = 0.0
                freed[origin] = gaps[origin]
        for place in range(first, len(order)):
            index = order[place]
            start = 0.0 if origin < 0 else never
            previous = before[index]
            if previous >= 0:
                start = max(start, freed[previous])
            for edge in range(incoming_offsets[index], incoming_offsets[index + 1]):
                waited = incoming_source[edge]
                since = starts[waited] if incoming_from_start[edge] else ends[waited]
                if since > never:
                    start = max(start, since + incoming_lag[edge])
            if cut[index]:
                arrivals[index] = start
            elif start > never:
                starts[index] = start
                ends[index] = start + durations[index]
                freed[index] = ends[index] + gaps[index]
        for place in range(len(targets)):
            target = targets[place]
            out[number * len(targets) + place] = arrivals[target] if place < exchanges else starts[target]
    return 0
