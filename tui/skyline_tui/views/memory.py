"""The page of live memory: its level over the iteration, and the live blocks at the cursor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static

from skyline import units
from skyline.memory.timeline import MemoryPoint
from skyline.report.live_memory import LiveLine, LiveMemoryReport
from skyline.report.place import common_base, fitted_path, place
from skyline.report.schema import ProfileReport
from skyline_tui.figures import BAR, MUTED, flow, tail
from skyline_tui.views.view import Place, View
from skyline_tui.widgets.memory_columns import MemoryColumns
from skyline_tui.widgets.moment_cursor import MomentCursor, MomentMoved
from skyline_tui.widgets.row_list import RowList

_AGE_CELLS = 22
_OTHER_CELLS = 9 + 1 + 6 + 2 + 7 + 2 + 2 + _AGE_CELLS
"""Width of a row without its place and code, in cells."""
OWNERS = ("parameters", "gradients", "optimizer", "activations", "other")


class LiveLines(RowList):
    """The lines that hold memory at the cursor, largest first."""

    @dataclass
    class LineOpened(Message):
        """The user asks to see a line in its file."""

        line: LiveLine

    def __init__(self) -> None:
        super().__init__(id="live-lines", classes="panel")
        self.border_title = "Live at the cursor, by the line that allocated it (Enter opens)"
        self._report: LiveMemoryReport | None = None
        self._base: Path | None = None
        self._held: dict[str, LiveLine] = {}

    def show(self, report: LiveMemoryReport | None, base: Path | None) -> None:
        self._report, self._base = report, base
        self.redraw()

    @property
    def current(self) -> LiveLine | None:
        """The line under the cursor."""
        option = self.highlighted_option
        return self._held.get(option.id or "") if option else None

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Size, share as a bar, place, code, phase and age."""
        report = self._report
        if report is None:
            yield "empty", Content.styled("waiting for the first profile", MUTED)
            return
        scale = units.byte_scale([line.size_bytes for line in report.lines] or [report.live_bytes])
        self._held = {f"{line.file}:{line.line}:{line.phase}": line for line in report.lines}
        places = [place(line.file, line.line, self._base) for line in report.lines if line.file]
        where = min(max(map(len, places), default=0), max(width // 4, 12))
        for row, line in self._held.items():
            yield row, _row(line, report, scale, self._base, where, width)
        if report.other_bytes:
            yield "others", Content.styled(f"{scale.text(report.other_bytes):>9}  smaller lines", MUTED)
        older = "allocated before the iteration: parameters, optimizer state and others"
        yield (
            "older",
            Content.styled(f"{scale.text(report.older_bytes):>9}  {tail(older, width - 12)}", MUTED),
        )

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        if self.current is not None and self.current.file:
            self.post_message(self.LineOpened(self.current))


def _row(
    line: LiveLine,
    report: LiveMemoryReport,
    scale: units.UnitScale,
    base: Path | None,
    where: int,
    width: int,
) -> Content:
    share = line.size_bytes / max(report.live_bytes, 1)
    at = fitted_path(place(line.file, line.line, base) if line.file else "", where).ljust(where)
    age = f"{line.phase}, {units.format_ms(max(line.held_ms, 0.0))} ago"
    room = max(width - where - _OTHER_CELLS, 0)
    code = tail(line.source or "(outside your code)", room).ljust(room)
    return Content.assemble(
        f"{scale.text(line.size_bytes):>9} {units.format_share(share):>6}  ",
        (BAR * max(round(share * 6), 1), "$primary"),
        " " * (7 - max(round(share * 6), 1)),
        (at, "$text-primary"),
        "  ",
        code,
        "  ",
        (tail(age, _AGE_CELLS), MUTED),
    )


class MemoryView(View):
    """The curve, and below it the lines that hold memory at its cursor."""

    @dataclass
    class MomentWanted(Message):
        """Request for the live memory at a moment."""

        time_ms: float

    def __init__(self) -> None:
        super().__init__(id="view-memory", classes="view page")
        self._profile: ProfileReport | None = None
        self._fresh = False

    def parts(self) -> ComposeResult:
        yield Static("waiting for the first profile", id="memory-title", classes="view-title")
        yield memory_plot()
        yield LiveLines()

    def show(self, profile: ProfileReport) -> None:
        self._profile, self._fresh = profile, False
        if self.display:
            self.shown()

    def shown(self) -> None:
        """Draw, and request the live memory at the peak."""
        if self._profile is not None and not self._fresh:
            self._fresh = True
            points = self._profile.memory.timeline
            self._plot.show(points)
            if points:
                self.post_message(self.MomentWanted(self._time_ms))
            else:
                self.fail("no allocations were recorded: memory over time is unknown")
        self._describe()
        self._plot.focus()

    def arrived(self, report: LiveMemoryReport) -> None:
        """Show the live memory of the last requested moment."""
        base = None
        if self._profile is not None:
            base = common_base(self._profile.script, tuple(line.file for line in report.lines if line.file))
        self.query_one(LiveLines).show(report, base)

    def fail(self, reason: str) -> None:
        self.query_one("#memory-title", Static).update(Content.styled(f"! {reason}", "$text-warning"))

    def on_moment_moved(self, message: MomentMoved) -> None:
        message.stop()
        self._describe()
        self.post_message(self.MomentWanted(self._time_ms))

    def on_live_lines_line_opened(self, message: LiveLines.LineOpened) -> None:
        message.stop()
        self.post_message(self.PlaceChosen(message.line.file, message.line.line))

    def resized(self) -> None:
        self._describe()

    @property
    def place(self) -> Place | None:
        line = self.query_one(LiveLines).current
        return (line.file, line.line) if line is not None and line.file else None

    @property
    def _plot(self) -> MomentCursor:
        return self.query_one("#memory-plot", MomentCursor)

    @property
    def _time_ms(self) -> float:
        return self._plot.time_ms

    def _describe(self) -> None:
        profile = self._profile
        if profile is None or not profile.memory.timeline:
            return
        points = profile.memory.timeline
        at = max(bisect_right([point.time_ms for point in points], self._time_ms) - 1, 0)
        point = points[at]
        scale = units.byte_scale([point.live_bytes])
        peak = max(one.live_bytes for one in points)
        here = " (the peak)" if point.live_bytes == peak else f" of {units.format_bytes(peak)} at the peak"
        parts = [
            Content.assemble(
                "at ",
                (units.format_ms(self._time_ms), "bold"),
                "  ",
                (scale.text(point.live_bytes), "bold"),
                here,
            ),
            *(Content(f"{owner} {scale.text(_of(point, owner))}") for owner in OWNERS if _of(point, owner)),
            Content.styled("← → or drag moves, x peak; ▞ live  ⠒ kept between iterations", MUTED),
        ]
        self.query_one("#memory-title", Static).update(flow(parts, max(self.size.width - 2, 20)))


def _of(point: MemoryPoint, owner: str) -> int:
    return int(getattr(point, owner))


def memory_plot() -> MomentCursor:
    """The curve of live memory: as lines by textual-plot, as columns of blocks without that library."""
    try:
        from skyline_tui.widgets.memory_plot import MemoryPlot
    except ImportError:
        return MemoryColumns()
    return MemoryPlot()
