"""A bar that shows a value and can be dragged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

LEFT_END, RIGHT_END = "▕", "▏"
NOW, GAIN, LOSS, EMPTY, HANDLE = "█", "▓", "░", "┄", "┃"


class DragBar(Widget):
    """The current and the predicted value as fractions of the bar; the pointer moves the second.

    The current value is solid; an increase is shaded dark, a decrease light. The bar is readable without colour.
    """

    ALLOW_SELECT = False
    """Text selection is off, since it would redraw the whole screen at every step of a drag."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "bar--now",
        "bar--gain",
        "bar--loss",
        "bar--empty",
        "bar--handle",
    }

    now: reactive[float | None] = reactive(None)
    then: reactive[float | None] = reactive(None)
    why_not: reactive[str] = reactive("")
    """The text in place of the bar while dragging is disabled."""

    @dataclass
    class Dragged(Message):
        """The pointer holds the bar at ``fraction``."""

        bar: DragBar
        fraction: float

    @dataclass
    class Released(Message):
        """The pointer released the bar at ``fraction``."""

        bar: DragBar
        fraction: float

    def __init__(self, bar_id: str) -> None:
        super().__init__(id=bar_id)
        self.held = False

    @property
    def track_width(self) -> int:
        """Cells between the two ends."""
        return max(self.size.width - 2, 1)

    def fraction_at(self, x: int) -> float:
        """The fraction at a column of the widget; the outermost cells are exactly the ends."""
        return min(max((x - 1) / max(self.track_width - 1, 1), 0.0), 1.0)

    def render(self) -> Content:
        if self.why_not or self.now is None:
            return Content.styled(
                self.why_not or "waiting for the first profile", self.get_visual_style("bar--empty")
            )
        width = self.track_width
        here = _cell(self.now, width)
        there = here if self.then is None else _cell(self.then, width)
        cells = [NOW if cell <= here else EMPTY for cell in range(width)]
        for cell in range(here + 1, there):
            cells[cell] = GAIN
        for cell in range(there + 1, here + 1):
            cells[cell] = LOSS
        cells[there] = HANDLE
        names = {NOW: "now", GAIN: "gain", LOSS: "loss", EMPTY: "empty", HANDLE: "handle"}
        parts = [
            Content.styled("".join(run), self.get_visual_style(f"bar--{names[cell]}"))
            for cell, run in groupby(cells)
        ]
        return Content.assemble(LEFT_END, *parts, RIGHT_END)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Hold the bar; it jumps to the pointer, so that a click works like a drag."""
        if self.why_not or self.now is None or event.button != 1:
            return
        self.held = True
        self.add_class("-held")
        self.capture_mouse()
        self.post_message(self.Dragged(self, self.fraction_at(event.x)))
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the pointer, also outside the widget."""
        if self.held:
            self.post_message(self.Dragged(self, self.fraction_at(event.x)))
            event.stop()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self.held:
            self.let_go()
            self.post_message(self.Released(self, self.fraction_at(event.x)))
            event.stop()

    def let_go(self) -> None:
        """End a drag without a choice."""
        self.held = False
        self.remove_class("-held")
        self.release_mouse()


def _cell(fraction: float, width: int) -> int:
    return min(max(round(fraction * (width - 1)), 0), width - 1)
