"""The lanes of one iteration: measured above, simulated below, on one scale."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from skyline import units
from skyline.lazy_dataclass import dataclass
from skyline.report.place import middle
from skyline.report.timeline_report import LaneReport, TimelineReport, TimelineSide
from skyline_tui.figures import MUTED
from skyline_tui.widgets.lane_cells import NOTHING, TimeWindow, cells_of, neighbour, piece_at

SIGNS = {
    "data": "▾",
    "forward": "›",
    "backward": "‹",
    "optimizer": "•",
    "communication": "≈",
    "other": " ",
}
"""The fill character of each phase, in addition to its colour."""
IDLE = "┄"
NAME_CELLS = 18
_ZOOM = 1.5


@dataclass(frozen=True, slots=True)
class _PictureRow:
    """A row of the picture: a heading, or a lane of one side."""

    side: TimelineSide
    lane: LaneReport | None


class Lanes(ScrollView, can_focus=True):
    """Draws the window; the cursor is a lane and a time."""

    ALLOW_SELECT = False
    """Text selection is off, since it would redraw the whole screen at every step of a drag."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Earlier", show=False, id="timeline.left"),
        Binding("right", "move(1)", "Later", show=False, id="timeline.right"),
        Binding("shift+left,b", "jump(-1)", "Previous work", show=False, id="timeline.previous"),
        Binding("shift+right,n", "jump(1)", "Next work", show=False, id="timeline.next"),
        Binding("up,k", "lane(-1)", "Lane above", show=False, id="timeline.up"),
        Binding("down,j", "lane(1)", "Lane below", show=False, id="timeline.down"),
        Binding("plus,equals_sign", "zoom(1)", "Closer", show=False, id="timeline.closer"),
        Binding("minus", "zoom(-1)", "Away", show=False, id="timeline.away"),
        Binding("pagedown", "page(1)", "Half a window forward", show=False, id="timeline.page-on"),
        Binding("pageup", "page(-1)", "Half a window back", show=False, id="timeline.page-back"),
        Binding("home", "whole", "Whole iteration", show=False, id="timeline.whole"),
        Binding("z", "fit", "Zoom to the work", show=False, id="timeline.fit"),
        Binding("enter", "open", "Open the line", show=False, id="timeline.open"),
    ]

    @dataclass
    class WindowMoved(Message):
        """Another part is visible, for which finer data may be needed."""

        window: TimeWindow

    @dataclass
    class CursorMoved(Message):
        """The cursor has moved."""

    @dataclass
    class TaskOpened(Message):
        """The user asks to see the line of the selected work."""

    def __init__(self) -> None:
        super().__init__(id="lanes")
        self.report: TimelineReport | None = None
        self.whole_ms = 0.0
        self.window = TimeWindow(0.0, 1.0, 1)
        self.time_ms = 0.0
        self._rows: list[_PictureRow] = []
        self._at = 0
        self._grip: float | None = None
        self._dragged = False
        self._styles: dict[str, Style] = {}
        self._strips: dict[int, Strip] = {}

    def show(self, report: TimelineReport, *, anew: bool) -> None:
        """Show other data. ``anew``: they are of another iteration or question, so the whole of it is shown."""
        self.report = report
        rows = [
            _PictureRow(side, lane)
            for side in (report.measured, report.simulated)
            if side.lanes
            for lane in (None, *side.lanes)
        ]
        if anew or not self._rows:
            self.whole_ms = report.end_ms
            self.window = TimeWindow(0.0, report.end_ms, self._track)
            self._at = next((at for at, row in enumerate(rows) if row.lane is not None), 0)
            self.time_ms = min(self.time_ms, self.whole_ms)
        self._rows = rows
        self._at = min(self._at, len(rows) - 1)
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self.redraw()

    @property
    def lane(self) -> LaneReport | None:
        """The lane of the cursor."""
        return self._rows[self._at].lane if self._rows else None

    @property
    def side(self) -> TimelineSide | None:
        """The side of the cursor."""
        return self._rows[self._at].side if self._rows else None

    @property
    def piece(self) -> int:
        """The work at the cursor: at its exact time, else the one shown in its cell."""
        lane = self.lane
        if lane is None:
            return NOTHING
        exact = piece_at(lane, self.time_ms)
        if exact != NOTHING:
            return exact
        cell = self.window.cell(self.time_ms)
        shown = cells_of(lane, self.window)
        return shown[cell] if 0 <= cell < len(shown) else NOTHING

    @property
    def work_words(self) -> list[Content]:
        """Name, time, start and phase of the work at the cursor, or a note that nothing runs."""
        report, lane, piece = self.report, self.lane, self.piece
        if report is None:
            return []
        scale = units.time_scale([self.window.ms_per_cell * 10])
        if lane is None or piece == NOTHING:
            return [
                Content(f"at {scale.text(self.time_ms)}"),
                Content.styled("nothing runs on this lane", MUTED),
            ]
        count, name = lane.count[piece], report.labels[lane.label[piece]]
        return [
            Content.styled(name if count == 1 else f"{count} pieces of work, the longest {name}", "bold"),
            Content(units.format_ms(lane.end_ms[piece] - lane.start_ms[piece])),
            Content(f"from {scale.text(lane.start_ms[piece])}"),
            Content(report.phases[lane.phase[piece]]),
        ]

    def redraw(self) -> None:
        """Redraw everything."""
        self._strips.clear()
        self.refresh()

    @property
    def _track(self) -> int:
        return max(self.size.width - NAME_CELLS - 2, 10)

    def on_resize(self) -> None:
        self.window = TimeWindow(self.window.begin_ms, self.window.end_ms, self._track)
        self.virtual_size = Size(self.size.width, len(self._rows) + 1)
        self.redraw()

    def notify_style_update(self) -> None:
        """Use the colours of another theme."""
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._strip(y)
        return strip.crop_extend(0, self.size.width, self._style("text"))

    def _strip(self, y: int) -> Strip:
        if y == 0:
            return Strip([Segment(self._scale(), self._style("muted"))])
        if y > len(self._rows):
            return Strip([])
        row = self._rows[y - 1]
        if row.lane is None:
            took = units.format_ms(row.side.duration_ms)
            return Strip([Segment(f"{row.side.title}: {took}", self._style("title"))])
        return self._lane_strip(row.lane, chosen=y - 1 == self._at)

    def _lane_strip(self, lane: LaneReport, *, chosen: bool) -> Strip:
        assert self.report is not None
        mark = "▶ " if chosen else "  "
        name = mark + middle(lane.name, NAME_CELLS - 3)
        segments = [Segment(name.ljust(NAME_CELLS), self._style("cursor-name" if chosen else "name"))]
        cells = cells_of(lane, self.window)
        selected = self.piece if chosen else NOTHING
        cursor = self.window.cell(self.time_ms)
        at = 0
        while at < len(cells):
            piece, end = cells[at], at + 1
            while end < len(cells) and cells[end] == piece:
                end += 1
            text = IDLE * (end - at) if piece == NOTHING else self._filling(lane, piece, end - at)
            style = "idle" if piece == NOTHING else f"phase-{self.report.phases[lane.phase[piece]]}"
            if piece != NOTHING and piece == selected:
                style += " selected"
            if chosen and at <= cursor < end:
                inside = cursor - at
                segments += [
                    Segment(text[:inside], self._style(style)),
                    Segment("┃" if piece == NOTHING else text[inside], self._style("cursor")),
                    Segment(text[inside + 1 :], self._style(style)),
                ]
            else:
                segments.append(Segment(text, self._style(style)))
            at = end
        return Strip([segment for segment in segments if segment.text])

    def _filling(self, lane: LaneReport, piece: int, cells: int) -> str:
        """The name if there is space, else the sign of the phase."""
        assert self.report is not None
        sign = SIGNS.get(self.report.phases[lane.phase[piece]], " ")
        label = self.report.labels[lane.label[piece]].removeprefix("aten::")
        if lane.count[piece] > 1:
            label = f"{lane.count[piece]}× {label}"
        if cells < min(len(label), 6) + 2:
            return sign * cells
        text = label if len(label) <= cells - 2 else label[: cells - 3] + "…"
        return f"{sign}{text} ".ljust(cells, sign)

    def _scale(self) -> str:
        """Times along the top, as many as fit."""
        cells = [" "] * self.window.cells
        span = units.time_scale([self.window.end_ms - self.window.begin_ms])
        every = 14
        for cell in range(0, self.window.cells - 8, every):
            text = "▏" + span.text(self.window.time_ms(cell))
            cells[cell : cell + len(text)] = text
        return " " * NAME_CELLS + "".join(cells[: self.window.cells])

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self._made(name)
        return style

    def _made(self, name: str) -> Style:
        variables = self.app.theme_variables
        base = Color.parse(variables["background"])
        text = Color.parse(variables["foreground"])

        def colour(value: Color) -> str:
            return value.hex6

        if name.startswith("phase-"):
            key, _, selected = name.partition(" ")
            fill = Color.parse(variables.get(key, variables["primary"]))
            if selected:
                return Style(
                    color=colour(fill.get_contrast_text(1.0)), bgcolor=colour(fill.lighten(0.15)), bold=True
                )
            return Style(color=colour(text), bgcolor=colour(base.blend(fill, 0.55)))
        if name == "cursor":
            return Style(color=colour(base), bgcolor=colour(text), bold=True)
        if name in ("title", "cursor-name"):
            return Style(color=colour(text), bgcolor=colour(base), bold=True)
        share = {"muted": 0.6, "idle": 0.3}.get(name, 1.0)
        return Style(color=colour(base.blend(text, share)), bgcolor=colour(base))

    # The cursor and the window.

    def _moved(self) -> None:
        self._strips.clear()
        self.refresh()
        self.post_message(self.CursorMoved())

    def _look(self, window: TimeWindow) -> None:
        if window != self.window:
            self.window = window
            self.post_message(self.WindowMoved(window))
        self._moved()

    def _go(self, time_ms: float) -> None:
        """Move the cursor to a time, and the window with it."""
        self.time_ms = min(max(time_ms, 0.0), self.whole_ms)
        window = self.window
        if not window.begin_ms <= self.time_ms < window.end_ms:
            window = window.moved(self.time_ms - (window.begin_ms + window.end_ms) / 2, self.whole_ms)
        self._look(window)

    def action_move(self, cells: int) -> None:
        self._go(self.time_ms + cells * self.window.ms_per_cell)

    def action_jump(self, step: int) -> None:
        lane = self.lane
        piece = neighbour(lane, self.time_ms, step) if lane is not None else NOTHING
        if lane is not None and piece != NOTHING:
            self._go(lane.start_ms[piece])

    def action_lane(self, step: int) -> None:
        at = self._at + step
        while 0 <= at < len(self._rows) and self._rows[at].lane is None:
            at += step
        if 0 <= at < len(self._rows):
            self._at = at
            self.scroll_to_region_of(at + 1)
            self._moved()

    def scroll_to_region_of(self, row: int) -> None:
        """Scroll a row into view."""
        top = self.scroll_offset.y
        if row < top + 1:
            self.scroll_to(y=row - 1, animate=False)
        elif row >= top + self.size.height:
            self.scroll_to(y=row - self.size.height + 1, animate=False)

    def action_zoom(self, step: int) -> None:
        self._look(self.window.zoomed(_ZOOM**step, self.time_ms, self.whole_ms))

    def action_page(self, step: int) -> None:
        """Move by half a window."""
        half = (self.window.end_ms - self.window.begin_ms) / 2
        self.time_ms = min(max(self.time_ms + step * half, 0.0), self.whole_ms)
        self._look(self.window.moved(step * half, self.whole_ms))

    def action_whole(self) -> None:
        self._look(TimeWindow(0.0, self.whole_ms, self.window.cells))

    def action_fit(self) -> None:
        """Zoom to the selected work, with some margin."""
        lane, piece = self.lane, self.piece
        if lane is None or piece == NOTHING:
            return
        length = max(lane.end_ms[piece] - lane.start_ms[piece], self.whole_ms * 1e-6)
        middle_ms = (lane.start_ms[piece] + lane.end_ms[piece]) / 2
        self.time_ms = lane.start_ms[piece]
        width = min(1.5 * length, self.whole_ms)
        begin = min(max(middle_ms - width / 2, 0.0), self.whole_ms - width)
        self._look(TimeWindow(begin, begin + width, self.window.cells))

    def action_open(self) -> None:
        self.post_message(self.TaskOpened())

    # The mouse.

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self.report is None or event.button != 1:
            return
        self._grip, self._dragged = event.x, False
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._grip is not None and event.x != self._grip:
            by = (self._grip - event.x) * self.window.ms_per_cell
            self._grip, self._dragged = event.x, True
            self._look(self.window.moved(by, self.whole_ms))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End a drag; without movement it was a click."""
        if self._grip is None:
            return
        self._grip = None
        self.release_mouse()
        row = int(event.y) + self.scroll_offset.y - 1
        if not self._dragged and 0 <= row < len(self._rows) and self._rows[row].lane is not None:
            self._at = row
            if event.x >= NAME_CELLS:
                self.time_ms = self.window.time_ms(event.x - NAME_CELLS + 0.5)
            self._moved()

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, -1)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, 1)

    def _wheel(self, event: events.MouseScrollDown | events.MouseScrollUp, step: int) -> None:
        event.stop()
        event.prevent_default()
        about = self.window.time_ms(max(event.x - NAME_CELLS, 0))
        self._look(self.window.zoomed(_ZOOM**step, about, self.whole_ms))
