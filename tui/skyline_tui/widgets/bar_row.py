"""A bar with its name and its values."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Label

from skyline.report.speedup import Direction
from skyline_tui.scale import Axis
from skyline_tui.widgets.drag_bar import DragBar
from skyline_tui.widgets.words import Words


class BarRow(Horizontal):
    """Shows values on a bar by its axis, except while the pointer holds it."""

    def __init__(self, name: str) -> None:
        super().__init__(id=f"{name.lower()}-row", classes="bar-row")
        self._label = name
        self.bar = DragBar(f"{name.lower()}-bar")
        self._figures = Words(id=f"{name.lower()}-figures", classes="bar-figures")

    def compose(self) -> ComposeResult:
        """Name, bar, values."""
        yield Label(self._label, classes="bar-name")
        yield self.bar
        yield self._figures

    @property
    def room(self) -> int:
        """Width of the values, in cells."""
        return self._figures.content_size.width

    def figures(self, content: Content) -> None:
        """Show the values as numbers."""
        self._figures.say(content)

    def block(self, why_not: str) -> None:
        """Disable dragging with a reason; enable it with an empty one."""
        self.bar.why_not = why_not

    def judge(self, direction: Direction) -> None:
        """Colour the change as a gain or loss only if its whole range is one."""
        self.bar.set_class(direction == "better", "-better")
        self.bar.set_class(direction == "worse", "-worse")

    def show(self, axis: Axis, now: float | None, then: float | None) -> None:
        """Show the current and the predicted value, in the unit of the axis."""
        self.bar.now = 0.0 if now is None else axis.fraction(now)
        if not self.bar.held:
            self.bar.then = None if then is None else axis.fraction(then)
