"""Forward to backward: the script's thread starts autograd's thread and waits for it."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Indices, Times
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.pieces import Pieces
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Bursts:
    """Periods of autograd work during which the script's thread may be waiting, in time order.

    Times are the first start and the last end of a period. ``first`` and ``last`` are the trace rows of its first
    and last piece.
    """

    thread: Ids
    start_us: Times
    end_us: Times
    event: Ids
    """Trace row of the event at the start of the period."""

    def __len__(self) -> int:
        return len(self.thread)


def bursts_of(pieces: Pieces, main: int, autograd: tuple[int, ...]) -> Bursts:
    """Runs of autograd work without interruption by the script's thread.

    Autograd's thread sleeps until it receives nodes. It received some if the script's thread worked, from beginning
    to end, during a pause of autograd's thread. Other pauses of autograd's thread are its own time. Work of the
    script's thread while autograd's thread is busy (CPU nodes run there) starts nothing.
    """
    script = pieces.on(main)
    start, end = pieces.start_us[script], pieces.end_us[script]
    threads: list[int] = []
    begins: list[float] = []
    ends: list[float] = []
    events: list[int] = []
    for thread in autograd:
        mine = pieces.on(thread)
        if not len(mine):
            continue
        first = _given(start, end, pieces, mine)
        last = np.append(first[1:] - 1, len(mine) - 1)
        threads += [thread] * len(first)
        begins += pieces.start_us[mine[first]].tolist()
        ends += pieces.end_us[mine[last]].tolist()
        events += pieces.event[mine[first]].tolist()
    order = np.argsort(np.array(begins), kind="stable")
    return Bursts(
        np.array(threads, np.int32)[order],
        np.array(begins)[order],
        np.array(ends)[order],
        np.array(events, np.int32)[order],
    )


def _given(start: Times, end: Times, pieces: Pieces, mine: Indices) -> Indices:
    """Indices into ``mine`` at which the thread received work."""
    idle_from = np.append(-np.inf, pieces.end_us[mine[:-1]])
    until = pieces.start_us[mine]
    # The first piece of the script's thread that began in the pause must also end in it.
    candidate = np.searchsorted(start, idle_from)
    inside = candidate < len(start)
    inside[inside] = (end[candidate[inside]] <= until[inside]) & (start[candidate[inside]] < until[inside])
    inside[0] = True
    return np.flatnonzero(inside)


@dataclass(frozen=True, slots=True, eq=False)
class HandOffs:
    """The result of the hand-offs: dependencies, and pieces whose time up to the next piece is waiting, not work."""

    dependencies: Dependencies
    idle_after: Indices
    begun: Indices
    """Pieces that a hand-off starts."""


def hand_offs(pieces: Pieces, found: Bursts, given: Ids, waited: Ids) -> HandOffs:
    """Dependencies between the threads at the points where the script's thread passes work on and gets it back.

    ``given`` and ``waited`` are the numbers of these points among the pieces, one each per burst. The script's
    thread is idle directly before it gets its work back, and autograd's thread directly before it receives work.
    """
    first = np.empty(len(found), np.int64)
    last = np.empty(len(found), np.int64)
    for place, (thread, begin, end) in enumerate(
        zip(found.thread.tolist(), found.start_us.tolist(), found.end_us.tolist(), strict=True)
    ):
        mine = pieces.on(thread)
        first[place] = mine[np.searchsorted(pieces.start_us[mine], begin)]
        last[place] = mine[np.searchsorted(pieces.end_us[mine], end, side="right") - 1]
    before = np.concatenate([first, waited]).astype(np.int64) - 1
    same = before >= 0
    same[same] = pieces.thread[before[same]] == pieces.thread[before[same] + 1]
    return HandOffs(
        Dependencies.columns(given, first, Cause.HAND_OFF).joined(
            Dependencies.columns(last, waited, Cause.HAND_OFF)
        ),
        before[same],
        first,
    )


def independent(pieces: Pieces, threads: tuple[int, ...], begun: Indices, origin: int) -> Dependencies:
    """Other threads keep their recorded start, since the trace does not show who starts them.

    The time counts from the point ``origin``.
    """
    firsts = [int(mine[0]) for thread in threads if len(mine := pieces.on(thread))]
    free = np.array([first for first in firsts if first not in set(begun.tolist())], np.int64)
    free = free[pieces.thread[free] != pieces.thread[origin]]
    lag = np.maximum(pieces.start_us[free] - pieces.start_us[origin], 0.0)
    return Dependencies.columns(np.full(len(free), origin), free, Cause.HAND_OFF, lag, from_start=True)
