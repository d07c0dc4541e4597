"""The graphs of all ranks combined: a collective begins for all when the last of them has arrived."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Flags, Ids, Indices, Times
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.graph import Graph, Structure
from skyline.graph.spans import side_by_side
from skyline.graph.task import KIND, PHASE, TaskKind, Tasks
from skyline.job.alignment import Alignment
from skyline.job.rank_graph import RankGraph
from skyline.job.waiting import CollectiveWaits
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase


@dataclass(frozen=True, slots=True, eq=False)
class JobGraph:
    """One graph of several ranks. Its time 0 is the earliest beginning of a rank.

    Lanes have names such as ``rank 3 stream 7``. Each collective has two tasks on its lane: the arrival,
    which takes no time, and the exchange. The exchange waits for the meeting of all ranks that take part.
    """

    graph: Graph
    first: Indices
    """The first task of each rank; its tasks end before the next rank's first. Task 0 is the job's beginning."""
    exchange: tuple[Indices, ...]
    """For each rank, the task of each of its exchanges, -1 if there is none; the arrival is the task before it."""
    step_end: tuple[Indices, ...]
    """For each rank, the tasks whose starts end its steps."""
    begin_us: float
    """Its time 0 on the common clock."""


def joined(alignment: Alignment, split: CollectiveWaits, graphs: Sequence[RankGraph]) -> JobGraph:
    """Joins the ranks' graphs, each with its own beginning, and exchanges that take their time without waiting."""
    begins = [graph.begin_us + float(shift) for graph, shift in zip(graphs, alignment.shift_us, strict=True)]
    begin = min(begins)
    tasks = [_point("job begins", "job")]
    waits: list[Dependencies] = []
    durations, gaps = [np.zeros(1)], [np.zeros(1)]
    firsts: list[int] = []
    exchanges: list[Indices] = []
    step_ends: list[Indices] = []
    count = 1
    for place, one in enumerate(graphs):
        took, matched = _transfers(alignment, split, place, one)
        cut = one.exchange[matched]
        arriving = np.zeros(len(one.graph), np.int64)
        arriving[cut] = 1
        moved = np.arange(len(one.graph)) + np.cumsum(arriving) + count
        rows = np.repeat(np.arange(len(one.graph)), 1 + arriving)
        # The first of the two rows of an exchange is the arrival.
        is_arrival = np.append(rows[1:] == rows[:-1], False)
        tasks.append(_named(one.graph.tasks.taken(rows), alignment.ranks[place].rank, is_arrival))
        durations.append(np.where(is_arrival, 0.0, took[rows]))
        gaps.append(np.where(is_arrival, 0.0, one.graph.gaps[rows]))
        edges = one.graph.structure.dependencies
        source = moved[edges.source] - np.where(edges.from_start, arriving[edges.source], 0)
        target = moved[edges.target] - arriving[edges.target]
        waits.append(Dependencies.columns(source, target, edges.cause, edges.lag_us, edges.from_start))
        opening = np.flatnonzero(one.graph.structure.before < 0)
        waits.append(
            Dependencies.columns(
                np.zeros(len(opening)), moved[opening] - arriving[opening], Cause.GIVEN, begins[place] - begin
            )
        )
        firsts.append(count)
        exchanges.append(np.where(one.exchange >= 0, moved[one.exchange], -1))
        step_ends.append(moved[one.step_end])
        count += len(rows)
    meetings, met = _meetings(alignment, exchanges, count)
    every = tasks[0].joined(*tasks[1:], *meetings)
    none = np.zeros(len(every) - count)
    graph = Graph(
        Structure(every, Dependencies.joined(*waits, *met)),
        np.concatenate([*durations, none]),
        np.concatenate([*gaps, none]),
    )
    return JobGraph(graph, np.array(firsts, np.int64), tuple(exchanges), tuple(step_ends), begin)


def _transfers(
    alignment: Alignment, split: CollectiveWaits, place: int, one: RankGraph
) -> tuple[Times, Indices]:
    """The duration of each task without waits for other ranks, and the exchanges with other ranks."""
    took = one.graph.durations.copy()
    rows = alignment.instances.row[place]
    shared = np.flatnonzero(rows >= 0)
    shared = shared[one.exchange[rows[shared]] >= 0]
    pace = 1.0 if one.pace is None else one.pace[rows[shared]]
    took[one.exchange[rows[shared]]] = split.transfer_us[shared] * pace
    return took, np.sort(rows[shared])


def _named(tasks: Tasks, rank: int, is_arrival: Flags) -> Tasks:
    names = (*tasks.names, "arrival")
    return tasks.changed(
        names=names,
        name=np.where(is_arrival, len(tasks.names), tasks.name),
        lanes=[f"rank {rank} {lane}" for lane in tasks.lanes],
    )


def _point(name: str, lane: str) -> Tasks:
    return Tasks.columns(1, (name,), (lane,))


def _meetings(
    alignment: Alignment, exchanges: list[Indices], first: int
) -> tuple[list[Tasks], list[Dependencies]]:
    """A task without length per collective, after every arrival and before every exchange."""
    row = alignment.instances.row
    present = np.zeros(row.shape, np.bool_)
    for place, tasks in enumerate(exchanges):
        mine = np.flatnonzero(row[place] >= 0)
        present[place, mine] = tasks[row[place, mine]] >= 0
    used = np.flatnonzero(present.any(axis=0))
    if not len(used):
        return [], []
    order, lane, lanes = _tracks(alignment, used)
    number = np.full(row.shape[1], -1, np.int64)
    number[order] = np.arange(first, first + len(order))
    meetings = Tasks.columns(
        len(order),
        ("meeting",),
        lanes,
        lane=lane,
        kind=np.full(len(order), KIND[TaskKind.SYNC]),
        phase=np.full(len(order), PHASE[Phase.COMMUNICATION]),
    )
    waits: list[Dependencies] = []
    for place, tasks in enumerate(exchanges):
        mine = np.flatnonzero(present[place])
        exchange = tasks[row[place, mine]]
        waits.append(Dependencies.columns(exchange - 1, number[mine], Cause.COLLECTIVE))
        waits.append(Dependencies.columns(number[mine], exchange, Cause.COLLECTIVE))
    return [meetings], waits


def _tracks(alignment: Alignment, used: Indices) -> tuple[Indices, Ids, tuple[str, ...]]:
    """Meetings by channel, in the order of the channel's ranks, and the lane of each.

    Collectives of a channel that ran at the same time have separate lanes, so that none waits for another's
    end.
    """
    instances = alignment.instances
    begin, end = np.nanmax(alignment.start_us, axis=0), np.nanmax(alignment.end_us, axis=0)
    channel_of = np.array([instances.channel[int(at)] for at in used])
    orders: list[Indices] = []
    lanes: list[str] = []
    lane_of: list[Ids] = []
    for channel in dict.fromkeys(channel_of.tolist()):
        mine = used[channel_of == channel]
        # One of the ranks has all of them: the one with which the others were compared.
        whole = int(np.argmax((instances.row[:, mine] >= 0).sum(axis=1)))
        mine = mine[np.argsort(instances.row[whole, mine], kind="stable")]
        track = side_by_side(begin[mine], end[mine])
        orders.append(mine)
        lane_of.append(track + len(lanes))
        lanes += [f"meetings on {channel} {number + 1}" for number in range(int(track.max()) + 1)]
    return np.concatenate(orders), np.concatenate(lane_of), tuple(lanes)
