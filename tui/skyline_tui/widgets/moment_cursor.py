"""A cursor over the time of an iteration, moved by keys and by the pointer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from skyline.memory.timeline import MemoryPoint

_STEPS = 100


@dataclass
class MomentMoved(Message):
    """The cursor is at this moment."""

    time_ms: float


class MomentCursor(Widget):
    """A drawing of live memory with a cursor; the drawing itself does not change."""

    ALLOW_SELECT = False
    """Text selection is off, since it would redraw the whole screen at every step of a drag."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Earlier", show=False, id="memory.left"),
        Binding("right", "step(1)", "Later", show=False, id="memory.right"),
        Binding("shift+left", "step(-10)", "Earlier by ten", show=False, id="memory.far-left"),
        Binding("shift+right", "step(10)", "Later by ten", show=False, id="memory.far-right"),
        Binding("home", "end(0)", "Begin", show=False, id="memory.begin"),
        Binding("end", "end(1)", "End", show=False, id="memory.end"),
        Binding("x", "peak", "Peak", show=False, id="memory.peak"),
    ]

    points: tuple[MemoryPoint, ...] = ()
    time_ms = 0.0
    _grip = False

    def draw(self) -> None:
        """Draw the points and the cursor."""
        raise NotImplementedError

    def time_at(self, event: events.MouseEvent) -> float:
        """The moment under the pointer."""
        raise NotImplementedError

    @property
    def whole_ms(self) -> float:
        """The end of the iteration."""
        return self.points[-1].time_ms if self.points else 0.0

    def show(self, points: tuple[MemoryPoint, ...]) -> None:
        """Show another iteration; the cursor goes to its peak."""
        self.points = points
        self.time_ms = max(points, key=lambda point: point.live_bytes).time_ms if points else 0.0
        self.draw()

    def go(self, time_ms: float) -> None:
        """Move the cursor to a moment."""
        self.time_ms = min(max(time_ms, 0.0), self.whole_ms)
        self.draw()
        self.post_message(MomentMoved(self.time_ms))

    def action_step(self, steps: int) -> None:
        """Move by hundredths of the iteration."""
        self.go(self.time_ms + steps * self.whole_ms / _STEPS)

    def action_end(self, which: int) -> None:
        self.go(which * self.whole_ms)

    def action_peak(self) -> None:
        if self.points:
            self.go(max(self.points, key=lambda point: point.live_bytes).time_ms)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and self.points:
            self._grip = True
            self.capture_mouse()
            self.go(self.time_at(event))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._grip:
            self.go(self.time_at(event))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._grip:
            self._grip = False
            self.release_mouse()


def kept_bytes(point: MemoryPoint) -> int:
    """Memory that stays alive between iterations."""
    return point.parameters + point.gradients + point.optimizer
