"""Reads the traces of a job's ranks; each is read and reduced in its own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from skyline.errors import SkylineError, UsageError
from skyline.graph.column import Indices
from skyline.graph.dependency import CyclicGraph
from skyline.graph.from_kineto import built
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.spans import side_by_side
from skyline.job.rank_graph import Links, RankGraph, linked
from skyline.job.rank_work import RankWork, rank_work
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.kineto.reader import read

_NEVER = float("-inf")
_REMEMBERED = 100
"""The number of collectives after which points are forgotten; this only saves memory and changes no result."""
_Since = tuple[dict[int, float], float]
"""The least time after each point, as a table that tasks share and a number to add."""


def reduced(rank: RankGraph) -> RankGraph:
    """The same rank, with everything between two of its collectives as one least time.

    A simulation in a fixed order only adds and takes maxima, so the reduction is exact: for any duration of
    the collectives, arrivals and ends of steps are the same as in the whole graph. The result has no tasks,
    so changes of tasks must be made before the reduction.
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
    """One pass over the tasks that computes the least time from earlier points to the start of each task.

    Points are the beginning (0), the end of each collective (its number, from 1) and the arrival at it (its
    negative number). A point is forgotten if a later one always bounds the task as much. Few points remain at
    each task, so the pass takes hardly longer than a simulation.
    """

    def __init__(self, rank: RankGraph, exchange: list[int]) -> None:
        self._rank = rank
        self._number = {task: number for number, task in enumerate(exchange, 1)}
        self._arrival: dict[int, dict[int, float]] = {0: {0: 0.0}}
        """For each collective, the time from each earlier point to its arrival, maybe through other collectives."""

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
        """The bounds of a task that waits for both."""
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
        """True if a later point bounds the task at least as much, for any duration of the collectives."""
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
        # A collective's arrival is never later than its end.
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


Change = Callable[[Graph], Graph]
"""A what-if: other times or dependencies, or added tasks; collectives and ends of steps stay."""


@dataclass(frozen=True, slots=True)
class RankTrace:
    """One rank: its work, the graph of its collectives, and that graph under a what-if."""

    work: RankWork
    graph: RankGraph
    changed: RankGraph | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A file of the job that could not be used, and the reason."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class RankReader:
    """Reads a rank's trace, and keeps its collectives and the work between them; can be sent to other processes."""

    change: Change | None = None
    """A what-if for the rank, applied while all its tasks are in memory."""
    ranks: tuple[int, ...] | None = None
    """The ranks to which the what-if applies; None for all."""
    whatif: Callable[[ProfilerTrace], Graph] | None = None
    """A what-if that needs the rank's own trace, in place of ``change``."""

    def __call__(self, path: str) -> RankTrace | Unread:
        """Reads a file; ``Unread`` if unusable. Raises UsageError if the what-if removes a collective or step end."""
        try:
            trace = read(Path(path))
            work = rank_work(trace, path)
            one = RankTrace(work, rank_graph(trace, work))
        except SkylineError as error:
            return Unread(path, error.message)
        if one.graph.reduced:
            return one
        changed = None
        if self.ranks is None or one.work.rank in self.ranks:
            if self.whatif is not None:
                changed = reduced(_changed(one, self.whatif(trace)))
            elif self.change is not None:
                changed = reduced(_changed(one, self.change(one.graph.graph)))
        return RankTrace(one.work, reduced(one.graph), changed)


def read_whole(path: str) -> RankTrace:
    """One rank with every task, for joining whole graphs. Raises UsageError for a file that is no trace."""
    trace = read(Path(path))
    work = rank_work(trace, path)
    return RankTrace(work, rank_graph(trace, work))


def _changed(one: RankTrace, graph: Graph) -> RankGraph:
    """The rank under a what-if. A collective's time changes by the same factor as its task in the changed graph."""
    kept = one.graph
    present = kept.exchange >= 0
    exchange, step_end = kept.exchange.copy(), kept.step_end
    if graph.tasks is not kept.graph.tasks:
        exchange[present] = _places(kept.graph, graph, exchange[present])
        step_end = _places(kept.graph, graph, step_end)
    before = kept.graph.durations[np.maximum(kept.exchange, 0)]
    told = present & (before > 0)
    pace = np.where(told, graph.durations[np.maximum(exchange, 0)] / np.where(told, before, 1.0), 1.0)
    return RankGraph(graph, exchange, step_end, kept.begin_us, pace)


def _places(before: Graph, after: Graph, wanted: Indices) -> Indices:
    """The places of the wanted tasks in the changed graph, matched by origin and order.

    Raises UsageError if the change adds or removes tasks of one of these origins.
    """
    old, new = before.tasks.origin, after.tasks.origin
    origin = old[wanted]
    in_old, in_new = np.argsort(old, kind="stable"), np.argsort(new, kind="stable")
    old_first, old_end = (np.searchsorted(old[in_old], origin, side=side) for side in ("left", "right"))
    new_first, new_end = (np.searchsorted(new[in_new], origin, side=side) for side in ("left", "right"))
    if (origin < 0).any() or (old_end - old_first != new_end - new_first).any():
        raise UsageError(
            "the change removes a collective or the end of a step: it cannot be predicted for all ranks together"
        )
    number = np.empty(len(old), np.int64)
    number[in_old] = np.arange(len(old))
    return in_new[new_first + number[wanted] - old_first]


def rank_graph(trace: ProfilerTrace, work: RankWork) -> RankGraph:
    """The rank with every task.

    If its collectives ran on host threads, the waits for them are recorded in no trace, so the work between
    them is kept as measured.
    """
    exchanges = work.exchanges
    if len(exchanges) and (trace.thread[exchanges.event] >= 0).any():
        return as_measured(work)
    found = built(trace)
    try:
        _ = found.graph.structure.order
    except CyclicGraph:
        return as_measured(work)
    task_of = np.full(len(trace), -1, np.int64)
    on_stream = trace.thread[found.event] < 0
    task_of[found.event[on_stream]] = np.flatnonzero(on_stream)
    ends = found.steps.last if work.marked else np.array([_last_of(found.graph, found.main)])
    begin = float(found.start_us[0])
    return RankGraph(found.graph, task_of[exchanges.event], ends.astype(np.int64), begin)


def _last_of(graph: Graph, lane: str) -> int:
    on_lane = np.flatnonzero(graph.tasks.lane == graph.tasks.lane_code(lane))
    return int(on_lane[-1]) if len(on_lane) else len(graph) - 1


_SETTLES_US = 1000.0
"""On a busy machine, a thread may record the end of a collective this long after the waiting thread continues."""


def as_measured(one: RankWork) -> RankGraph:
    """Links each collective to the last one that had ended when it began, with the measured time between them.

    Without such a collective, it follows the arrival at the previous one, or the beginning of the steps.
    Overlap with other collectives is preserved. The graph cannot show that the host ran ahead of a collective
    and did not have to wait for it.
    """
    start, end = one.exchanges.start_us, one.exchanges.end_us
    count = len(start)
    points = np.concatenate([start, one.step_end_us])
    settled = end - np.minimum(_SETTLES_US, (end - start) / 2)
    order = np.argsort(settled, kind="stable")
    # The last of the exchanges that have ended at a point. No exchange has ended before its own beginning.
    over = np.concatenate(
        [
            np.searchsorted(settled[order], start),
            np.searchsorted(settled[order], one.step_end_us, side="right"),
        ]
    )
    previous = np.append(order, -1)[over - 1]
    number = np.arange(len(points))
    by_start = (previous < 0) & (number > 0) & (number < count)
    source = np.where(by_start, number, previous + 1)
    since = np.concatenate([[one.begin_us], end])[previous + 1]
    since[by_start] = start[np.flatnonzero(by_start) - 1]
    links = Links(
        source, number + 1, np.where(previous < 0, np.maximum(0.0, points - since), points - since), by_start
    )
    # Host threads run several collectives of a channel at once.
    track = side_by_side(start, end)
    lanes = tuple(f"collectives {number + 1}" for number in range(int(track.max(initial=-1)) + 1))
    graph = linked(links, end - start, track.astype(np.int64), lanes, len(one.step_end_us))
    return RankGraph(
        graph,
        np.arange(1, count + 1),
        np.arange(count + 1, count + 1 + len(one.step_end_us)),
        one.begin_us,
        reduced=True,
    )


@dataclass(frozen=True, slots=True)
class ScaleNamed:
    """A change of a graph that can be sent to other processes."""

    factors: tuple[tuple[str, float], ...]
    """Parts of task names, with the factors of their durations."""

    def __call__(self, graph: Graph) -> Graph:
        """The changed graph; if several names match a task, all their factors apply."""
        for name, factor in self.factors:
            graph = scale(graph, select(graph, name=name), factor)
        return graph


_ENDINGS = (".json", ".json.gz")
_OTHERS = (".profile.json.gz", "manifest.json", "_et.json", "_et.json.gz")
"""Skyline's profiles, lists of files, and PyTorch's execution traces."""


def trace_files(named: Sequence[str]) -> tuple[Path, ...]:
    """The named files, and the files in named folders: directly in them, else in folders below.

    Raises:
        UsageError: a name does not exist, or contains no trace.
    """
    found: dict[Path, None] = {}
    for name in named:
        path = Path(name)
        if path.is_dir():
            inside = [one for one in sorted(path.iterdir()) if _is_trace(one)]
            inside = inside or [one for one in sorted(path.rglob("*")) if _is_trace(one)]
            if not inside:
                raise UsageError(
                    f"{name} holds no trace",
                    hint="PyTorch profiler traces end in .json or .json.gz; each rank writes one.",
                )
            found.update((one.resolve(), None) for one in inside)
        elif path.is_file():
            found[path.resolve()] = None
        else:
            raise UsageError(f"{name} does not exist", hint="Name a folder of traces, or trace files.")
    return tuple(found)


def _is_trace(path: Path) -> bool:
    return path.name.endswith(_ENDINGS) and not path.name.endswith(_OTHERS) and path.is_file()
