"""Sets of time spans: merged, cut to a window, measured."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Times
from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Spans in µs that do not overlap, in order of time."""

    begin_us: Times
    end_us: Times

    @property
    def total_us(self) -> float:
        """Total length."""
        return float((self.end_us - self.begin_us).sum())

    def cut(self, begin_us: float, end_us: float) -> Spans:
        """The parts within a window."""
        begin = np.clip(self.begin_us, begin_us, end_us)
        end = np.clip(self.end_us, begin_us, end_us)
        kept = end > begin
        return Spans(begin[kept], end[kept])

    def before(self, moments_us: Times) -> Times:
        """The length before each moment."""
        if not len(self.begin_us):
            return np.zeros(len(moments_us))
        so_far = np.append(0.0, np.cumsum(self.end_us - self.begin_us))
        count = np.searchsorted(self.begin_us, moments_us, side="right")
        beyond = np.maximum(0.0, self.end_us[np.maximum(count - 1, 0)] - moments_us)
        return so_far[count] - np.where(count > 0, beyond, 0.0)

    def together(self, other: Spans) -> Spans:
        """The union."""
        return merged(
            np.concatenate([self.begin_us, other.begin_us]), np.concatenate([self.end_us, other.end_us])
        )

    def shared(self, other: Spans) -> Spans:
        """The intersection."""
        # Each span of this set overlaps a run of neighbours in the other set.
        first = np.searchsorted(other.end_us, self.begin_us, side="right")
        behind = np.searchsorted(other.begin_us, self.end_us, side="left")
        counts = np.maximum(0, behind - first)
        mine = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
        theirs = first[mine] + within
        return Spans(
            np.maximum(self.begin_us[mine], other.begin_us[theirs]),
            np.minimum(self.end_us[mine], other.end_us[theirs]),
        )


def side_by_side(begin_us: Times, end_us: Times) -> Ids:
    """For each span the number of the first track on which all earlier spans, in the given order, have ended."""
    free: list[float] = []
    tracks = np.empty(len(begin_us), np.int32)
    for at, (begin, end) in enumerate(zip(begin_us.tolist(), end_us.tolist(), strict=True)):
        track = next((number for number, since in enumerate(free) if since <= begin), len(free))
        if track == len(free):
            free.append(end)
        free[track] = end
        tracks[at] = track
    return tracks


def merged(begin_us: Times, end_us: Times) -> Spans:
    """The union of the given spans. Spans that overlap or touch are merged."""
    filled = end_us > begin_us
    begin, end = begin_us[filled], end_us[filled]
    if not len(begin):
        return Spans(np.empty(0), np.empty(0))
    order = np.argsort(begin, kind="stable")
    begin, reached = begin[order], np.maximum.accumulate(end[order])
    opens = np.append(True, begin[1:] > reached[:-1])
    return Spans(begin[opens], reached[np.append(opens[1:], True)])
