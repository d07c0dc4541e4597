"""The time of the host threads, cut into the pieces that become tasks."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import numpy as np

from skyline.graph.column import Codes, Flags, Ids, Indices, Times
from skyline.graph.rules.names import Names
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace


class Role(IntEnum):
    """The role of a piece for the rules."""

    MARK = 0
    """A zero-length point on the thread that other threads or the reader of a timeline refer to."""
    OPERATOR = 1
    LAUNCH = 2
    """A runtime call that launched GPU work."""
    SYNC = 3
    """A runtime call, or the remainder of one, that waits for the GPU."""


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces of host threads, sorted by thread and time; pieces of a thread do not overlap.

    ``event`` is the trace row that names the piece, ``operator`` the row of the outermost operator around it
    (-1: none).
    """

    thread: Ids
    start_us: Times
    end_us: Times
    event: Ids
    operator: Ids
    role: Codes

    def __len__(self) -> int:
        return len(self.thread)

    @classmethod
    def joined(cls, parts: list[Pieces]) -> Pieces:
        """The pieces of several threads, thread by thread."""
        return cls(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("thread", "start_us", "end_us", "event", "operator", "role")
            )
        )

    def on(self, thread: int) -> Indices:
        """Indices of a thread's pieces."""
        first = int(np.searchsorted(self.thread, thread))
        return np.arange(first, np.searchsorted(self.thread, thread, side="right"), dtype=np.int64)

    def marked(self, thread: Ids, time_us: Times, event: Ids, role: Role) -> tuple[Pieces, Ids]:
        """Insert points at the given times; return the pieces and the points' indices. A point splits a piece.

        Points precede pieces that begin at the same time, and keep the given order among themselves. The second half of
        a split call only waits: the first half launched.
        """
        cut = self._cut(thread, time_us)
        count = len(time_us)
        every = np.concatenate([cut.thread, thread])
        begin = np.concatenate([cut.start_us, time_us])
        # A piece that ends at a point has begun before it, unless its length is zero.
        late = np.concatenate([np.ones(len(cut), np.int8), np.zeros(count, np.int8)])
        order = np.lexsort((np.arange(len(every)), late, begin, every))
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        none = np.full(count, -1, np.int32)
        made = Pieces(
            every[order],
            begin[order],
            np.concatenate([cut.end_us, time_us])[order],
            np.concatenate([cut.event, event])[order],
            np.concatenate([cut.operator, none])[order],
            np.concatenate([cut.role, np.full(count, role, np.uint8)])[order],
        )
        return made, places[len(cut) :]

    def _cut(self, thread: Ids, time_us: Times) -> Pieces:
        """Split every piece at the points inside it."""
        split = np.full(len(thread), -1, np.int64)
        for one in np.unique(thread).tolist():
            points = np.flatnonzero(thread == one)
            first, behind = np.searchsorted(self.thread, [one, one + 1]).tolist()
            at = np.searchsorted(self.start_us[first:behind], time_us[points]) - 1
            split[points] = np.where(at >= 0, first + at, -1)
        inside = split >= 0
        inside[inside] = self.start_us[split[inside]] < time_us[inside]
        inside[inside] = time_us[inside] < self.end_us[split[inside]]
        if not inside.any():
            return self
        split, at_us = split[inside], time_us[inside]
        order = np.lexsort((at_us, split))
        split, at_us = split[order], at_us[order]
        last = np.append(split[1:] != split[:-1], True)
        end_us = self.end_us.copy()
        end_us[split[::-1]] = at_us[::-1]  # the earliest of several points of a stretch is written last
        rest_end = np.where(last, self.end_us[split], np.append(at_us[1:], 0.0))
        role = self.role[split]
        halves = Pieces(
            self.thread[split],
            at_us,
            rest_end,
            self.event[split],
            self.operator[split],
            np.where(role == Role.LAUNCH, Role.SYNC, role).astype(np.uint8),
        )
        both = Pieces.joined([replace(self, end_us=end_us), halves])
        order = np.lexsort((both.end_us, both.start_us, both.thread))
        return Pieces(*(getattr(both, name)[order] for name in both.__slots__))


_ROUNDING_US = 1.5
"""Longest overlap, in µs, that counts as rounding: old traces have whole microseconds."""


def cpu_order(trace: ProfilerTrace, names: Names, thread: int, launches: Flags) -> tuple[Pieces, int]:
    """The pieces of a thread in order, and the number of clipped events.

    Operators stay whole, the outermost first. Only calls that launch GPU work or wait for it are cut out, because
    the GPU depends on them. An operator with one launch becomes up to three pieces: before, the launch, after.
    Time between pieces (Python, dispatch) becomes the gap of the preceding piece. An event that begins inside
    another one and ends after it is clipped to the outer event.
    """
    here = trace.thread == thread
    whole = (trace.category == Category.CPU_OP) & ~names.context | names.loader & (
        trace.category <= Category.CPU_OP
    ) & (trace.category != Category.PYTHON)
    operators, operator_end, clipped = _outermost(trace, np.flatnonzero(here & whole))
    is_call = np.isin(trace.category, (Category.RUNTIME, Category.DRIVER))
    calls, call_end, _ = _outermost(trace, np.flatnonzero(here & is_call & (launches | names.wait)))
    start, end = trace.start_us[operators], operator_end
    call_start = trace.start_us[calls]
    inside = np.searchsorted(start, call_start, side="right") - 1
    if len(operators):
        inside[inside >= 0] = np.where(
            call_start[inside >= 0] < end[inside[inside >= 0]], inside[inside >= 0], -1
        )
    held = np.flatnonzero(inside >= 0)
    # An operator has a piece from its start, and one from the end of each of its calls, up to the next call.
    of = np.concatenate([np.arange(len(operators)), inside[held]])
    begin = np.concatenate([start, call_end[held]])
    following = np.concatenate([np.searchsorted(call_start, start), held + 1])
    stop = end[of] if len(operators) else np.empty(0)
    cut = following < len(calls)
    cut[cut] = inside[following[cut]] == of[cut]
    stop[cut] = np.minimum(call_start[following[cut]], stop[cut])
    has_calls = np.zeros(len(operators), np.bool_)
    has_calls[inside[held]] = True
    kept = (stop > begin) | ((np.arange(len(of)) < len(operators)) & ~has_calls[of])
    of, begin, stop = of[kept], begin[kept], np.maximum(stop, begin)[kept]
    event = np.concatenate([operators[of], calls]).astype(np.int32)
    around = np.concatenate(
        [
            operators[of],
            np.where(inside >= 0, operators[inside], -1) if len(operators) else np.full(len(calls), -1),
        ]
    )
    start = np.concatenate([begin, call_start])
    end = np.concatenate([stop, call_end])
    role = np.concatenate(
        [
            np.full(len(of), Role.OPERATOR, np.uint8),
            np.where(names.wait[calls] & ~launches[calls], Role.SYNC, Role.LAUNCH).astype(np.uint8),
        ]
    )
    order = np.lexsort((end, start))
    start, end = _one_after_the_other(start[order], end[order])
    return (
        Pieces(
            np.full(len(order), thread, np.int32),
            start,
            end,
            event[order],
            around[order].astype(np.int32),
            role[order],
        ),
        clipped,
    )


def _outermost(trace: ProfilerTrace, rows: Indices) -> tuple[Indices, Times, int]:
    """The rows inside no other row, their ends, and the number of clipped rows among the rest."""
    if not len(rows):
        return rows, np.empty(0), 0
    start, end = trace.start_us[rows], trace.start_us[rows] + trace.duration_us[rows]
    reached = np.empty(len(rows))
    reached[0] = -np.inf
    np.maximum.accumulate(end[:-1], out=reached[1:])
    # Of two rows with equal spans the first contains the other, even if both have zero length.
    same = np.append(False, (start[1:] == start[:-1]) & (end[1:] == end[:-1]))
    outer = (start >= reached) & ~same
    overlapping = ~outer & (end > reached + _ROUNDING_US)
    # A row that overlaps its outer row's end by more than rounding is cut there: the time belongs to the outer row.
    return rows[outer], end[outer], int(np.count_nonzero(overlapping))


def _one_after_the_other(start: Times, end: Times) -> tuple[Times, Times]:
    """Separate pieces that overlap through rounding."""
    if not len(start):
        return start, end
    reached = np.maximum.accumulate(end)
    start = np.maximum(start, np.append(start[0], reached[:-1]))
    return start, np.maximum(start, end)
