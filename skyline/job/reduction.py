"""A rank's graph reduced to its collectives: all that other ranks can feel of it, in a thousandth of the memory."""

from __future__ import annotations

import numpy as np

from skyline.job.rank_graph import Links, RankGraph, linked

_NEVER = float("-inf")
_REMEMBERED = 100
"""Collectives; what lies further back is forgotten a little later than it could be, which changes no result."""
_Since = tuple[dict[int, float], float]
"""By point: how long after it something is at the least, as a table that tasks share, and a number to add."""


def reduced(rank: RankGraph) -> RankGraph:
    """The same rank, with everything between two of its collectives as one least time.

    Simulation under a fixed order adds and takes maxima, nothing else, so the reduction is exact: however long
    the collectives come to take, arrivals at them and ends of steps come out as in the whole graph. What is
    no longer there are the tasks: a change of a task is made before the reduction.
    """
    kept = np.flatnonzero(rank.exchange >= 0)
    exchange = rank.exchange[kept]
    lane_of = rank.graph.structure.lane_of[exchange]
    lanes, lane = np.unique(lane_of, return_inverse=True)
    names = tuple(rank.graph.structure.lanes[int(number)] for number in lanes)
    links = _Walk(rank, exchange.tolist()).links()
    graph = linked(links, rank.graph.durations[exchange], lane, names, len(rank.step_end))
    place = np.full(len(rank.exchange), -1, np.int64)
    place[kept] = np.arange(1, len(kept) + 1)
    steps = np.arange(len(kept) + 1, len(kept) + 1 + len(rank.step_end))
    return RankGraph(graph, place, steps, rank.begin_us, rank.pace, reduced=True)


class _Walk:
    """One pass over the tasks, each of which learns how long after which points it starts at the least.

    Points are the beginning (0), the end of each collective (its number, from 1) and the arrival at it (the
    same, negative). A point is forgotten where a later one bounds the task as much in any case: at each task
    few are left, so that the pass takes hardly longer than a simulation.
    """

    def __init__(self, rank: RankGraph, exchange: list[int]) -> None:
        self._rank = rank
        self._number = {task: number for number, task in enumerate(exchange, 1)}
        self._arrival: dict[int, dict[int, float]] = {0: {0: 0.0}}
        """By collective: how long after each earlier point one arrives at it, through others if need be."""

    def links(self) -> Links:
        """The least times from points to collectives and ends of steps."""
        graph, structure = self._rank.graph, self._rank.graph.structure
        durations, gaps = graph.durations.tolist(), graph.gaps.tolist()
        before: list[int] = structure.before.tolist()
        offsets = structure.incoming_offsets.tolist()
        sources: list[int] = structure.incoming_source.tolist()
        lags = structure.incoming_lag.tolist()
        from_start = structure.incoming_from_start.tolist()
        begin: _Since = ({0: 0.0}, 0.0)
        starts = [begin] * len(graph)
        ends = starts.copy()
        reached: dict[int, dict[int, float]] = {}
        ending = set(self._rank.step_end.tolist())
        order: list[int] = structure.order.tolist()
        for task in order:
            previous = before[task]
            since = begin if previous < 0 else _later(ends[previous], gaps[previous])
            for edge in range(offsets[task], offsets[task + 1]):
                waited = starts if from_start[edge] else ends
                since = self._both(since, _later(waited[sources[edge]], lags[edge]))
            if task in ending:
                reached[-task - 1] = _plain(since)
            number = self._number.get(task)
            if number is None:
                starts[task] = since
                ends[task] = _later(since, durations[task])
                continue
            reached[number] = _plain(since)
            self._arrive(number, reached[number])
            starts[task] = ({-number: 0.0}, 0.0)
            ends[task] = ({number: 0.0}, 0.0)
        return self._as_columns(reached)

    def _both(self, one: _Since, other: _Since) -> _Since:
        """What waits for both."""
        (mine, plus), (theirs, more) = one, other
        if mine is theirs:
            return one if plus >= more else other
        if all(mine.get(point, _NEVER) + plus >= time + more for point, time in theirs.items()):
            return one
        merged = {point: time + plus for point, time in mine.items()}
        for point, time in theirs.items():
            merged[point] = max(merged.get(point, _NEVER), time + more)
        return {point: time for point, time in merged.items() if not self._outlasted(point, merged)}, 0.0

    def _outlasted(self, point: int, times: dict[int, float]) -> bool:
        """Whether a later point bounds the task at least as much, however long collectives take."""
        bound = times[point]
        return any(
            other != point and self._arrival[abs(other)].get(point, _NEVER) + time >= bound
            for other, time in times.items()
        )

    def _arrive(self, number: int, since: dict[int, float]) -> None:
        found: dict[int, float] = {}
        for point, time in since.items():
            for earlier, passed in self._arrival[abs(point)].items():
                if earlier and number - abs(earlier) > _REMEMBERED:
                    continue
                found[earlier] = max(found.get(earlier, _NEVER), passed + time)
            found[point] = max(found.get(point, _NEVER), time)
        # Its own arrival comes no later than its end.
        found[-number] = 0.0
        self._arrival[number] = found

    def _as_columns(self, reached: dict[int, dict[int, float]]) -> Links:
        count = len(self._number)
        targets = [*range(1, count + 1), *(-task - 1 for task in self._rank.step_end.tolist())]
        rows = [
            (abs(point), place, time, point < 0)
            for place, target in enumerate(targets, 1)
            for point, time in sorted(reached[target].items())
        ]
        return Links(
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.int64),
            np.array([row[2] for row in rows], np.float64),
            np.array([row[3] for row in rows], np.bool_),
        )


def _later(since: _Since, by: float) -> _Since:
    return (since[0], since[1] + by) if by else since


def _plain(since: _Since) -> dict[int, float]:
    return {point: time + since[1] for point, time in since[0].items()}
