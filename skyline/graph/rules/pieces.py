"""The time of the host threads, cut into the pieces that become tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Codes, Ids, Indices, Times


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
        order = np.lexsort((time_us, thread))
        ends: list[npt.NDArray[np.float64]] = []
        whose: list[int] = []
        for one in order.tolist():
            first, behind = np.searchsorted(self.thread, [thread[one], thread[one] + 1])
            at = int(first + np.searchsorted(self.start_us[first:behind], time_us[one]) - 1)
            if at >= first and self.start_us[at] < time_us[one] < self.end_us[at]:
                whose.append(at)
                ends.append(time_us[one])
        if not whose:
            return self
        split = np.array(whose, np.int64)
        at_us = np.array(ends, np.float64)
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
