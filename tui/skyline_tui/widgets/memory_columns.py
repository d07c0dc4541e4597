"""Live tensor memory over an iteration as columns of blocks, for installations without textual-plot."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from textual import events
from textual.content import Content

from skyline import units
from skyline_tui.figures import MUTED
from skyline_tui.widgets.moment_cursor import MomentCursor, kept_bytes

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_AXIS = 10
"""Width of a size at the side and a line, in cells."""


class MemoryColumns(MomentCursor, can_focus=True):
    """One column per cell with the highest level in its time. The memory kept between iterations has its own colour."""

    def __init__(self) -> None:
        super().__init__(id="memory-plot")

    def draw(self) -> None:
        """Draw again."""
        self.refresh()

    def time_at(self, event: events.MouseEvent) -> float:
        """The middle of the cell under the pointer."""
        cell = event.screen_x - self.content_region.x - _AXIS
        return (cell + 0.5) * self.whole_ms / self._room

    def on_resize(self) -> None:
        self.refresh()

    @property
    def _room(self) -> int:
        return max(self.content_size.width - _AXIS, 8)

    def render(self) -> Content:
        height = self.content_size.height - 1
        if not self.points or height < 1:
            return Content("")
        columns = list(self._columns())
        top = max((live for live, _ in columns), default=0) or 1
        cursor = min(int(self.time_ms / max(self.whole_ms, 1e-9) * self._room), self._room - 1)
        scale = units.byte_scale([top])
        rows: list[Content] = []
        for row in range(height):
            side = scale.text(top) if row == 0 else scale.text(0) if row == height - 1 else ""
            cells = [(f"{side:>{_AXIS - 1}}", MUTED), ("│", MUTED)]
            cells += [
                _cell(live / top, kept / top, height - 1 - row, height, marked=number == cursor)
                for number, (live, kept) in enumerate(columns)
            ]
            rows.append(Content.assemble(*cells))
        end = units.format_ms(self.whole_ms)
        times = f"{'0 ms':<{max(self._room - len(end), 5)}}{end}"
        rows.append(Content.assemble(" " * _AXIS, (times, MUTED)))
        return Content("\n").join(rows)

    def _columns(self) -> Iterator[tuple[int, int]]:
        """For each cell, the highest level in its time and the memory kept between iterations, in bytes."""
        times = [point.time_ms for point in self.points]
        for cell in range(self._room):
            # A level holds until the next point.
            first = max(bisect_right(times, cell * self.whole_ms / self._room) - 1, 0)
            last = bisect_right(times, (cell + 1) * self.whole_ms / self._room)
            inside = self.points[first : max(last, first + 1)]
            yield max(point.live_bytes for point in inside), kept_bytes(inside[0])


def _cell(live: float, kept: float, above: int, height: int, *, marked: bool) -> tuple[str, str]:
    """A cell with ``above`` cells of its column below it, and its style."""
    filled = min(max(round(8 * height * live) - 8 * above, 0), 8)
    style = "$secondary" if kept * height > above else "$primary"
    if marked:
        return ("│" if filled == 0 else _EIGHTHS[filled], "bold $accent")
    return _EIGHTHS[filled], style
