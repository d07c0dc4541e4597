"""The piece of work that each cell of a lane shows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from skyline.lazy_dataclass import dataclass
from skyline.report.timeline_report import LaneReport

NOTHING = -1


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The visible part of the iteration, in ms, and its number of cells."""

    begin_ms: float
    end_ms: float
    cells: int

    @property
    def ms_per_cell(self) -> float:
        """Milliseconds per cell."""
        return max(self.end_ms - self.begin_ms, 1e-9) / max(self.cells, 1)

    def cell(self, time_ms: float) -> int:
        """The cell of a time, possibly outside the window."""
        return int((time_ms - self.begin_ms) // self.ms_per_cell)

    def time_ms(self, cell: float) -> float:
        """The time at a cell's left edge."""
        return self.begin_ms + cell * self.ms_per_cell

    def zoomed(self, factor: float, about_ms: float, whole_ms: float) -> TimeWindow:
        """Zoom by a factor (out: below 1) around a fixed time, within the iteration."""
        width = min(max((self.end_ms - self.begin_ms) / factor, whole_ms * 1e-6), whole_ms)
        share = (about_ms - self.begin_ms) / max(self.end_ms - self.begin_ms, 1e-9)
        return self._at(about_ms - share * width, width, whole_ms)

    def moved(self, by_ms: float, whole_ms: float) -> TimeWindow:
        """Move along the iteration, within it."""
        return self._at(self.begin_ms + by_ms, self.end_ms - self.begin_ms, whole_ms)

    def _at(self, begin_ms: float, width_ms: float, whole_ms: float) -> TimeWindow:
        begin = min(max(begin_ms, 0.0), max(whole_ms - width_ms, 0.0))
        return TimeWindow(begin, begin + width_ms, self.cells)


def cells_of(lane: LaneReport, window: TimeWindow) -> list[int]:
    """For each cell the piece of work with most of its time; ``NOTHING`` if the lane is mostly idle."""
    shown = [NOTHING] * window.cells
    filled = [0.0] * window.cells
    step = window.ms_per_cell
    first = max(bisect_right(lane.end_ms, window.begin_ms) - 1, 0)
    last = bisect_left(lane.start_ms, window.end_ms)
    busy = [0.0] * window.cells
    for piece in range(first, last):
        begin, end = lane.start_ms[piece], lane.end_ms[piece]
        left, right = max(window.cell(begin), 0), min(window.cell(end), window.cells - 1)
        for cell in range(left, right + 1):
            edge = window.begin_ms + cell * step
            share = min(end, edge + step) - max(begin, edge)
            if share > 0:
                busy[cell] += share
                if share > filled[cell]:
                    filled[cell], shown[cell] = share, piece
    # With less than half a cell of work the lane counts as idle there, unless no other cell shows the work.
    return [
        piece if share >= step / 2 or (piece != NOTHING and _alone(shown, cell)) else NOTHING
        for cell, (piece, share) in enumerate(zip(shown, busy, strict=True))
    ]


def piece_at(lane: LaneReport, time_ms: float) -> int:
    """The piece of work at a time; ``NOTHING`` if there is none."""
    piece = bisect_right(lane.start_ms, time_ms) - 1
    return piece if piece >= 0 and lane.end_ms[piece] > time_ms else NOTHING


def neighbour(lane: LaneReport, time_ms: float, step: int) -> int:
    """The next piece of work after a time, or the previous one for a negative step; ``NOTHING`` at the ends."""
    if step > 0:
        piece = bisect_right(lane.start_ms, time_ms)
        return piece if piece < len(lane.start_ms) else NOTHING
    piece = bisect_left(lane.start_ms, time_ms) - 1
    now = piece_at(lane, time_ms)
    return piece - 1 if piece == now and piece > 0 else piece


def _alone(shown: list[int], cell: int) -> bool:
    """True if no other cell shows the piece of this cell."""
    piece = shown[cell]
    return (cell == 0 or shown[cell - 1] != piece) and (cell + 1 == len(shown) or shown[cell + 1] != piece)
