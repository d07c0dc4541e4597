"""What keeps text of others from being obeyed by the terminal: all that is drawn goes through it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.app import App, ReturnType
from textual.color import Color
from textual.filter import LineFilter

from skyline.foreign_text import cleaned


class CleanText(LineFilter):
    """Leaves out of a line what a terminal would take for a command. None of it takes room: nothing else moves."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, their text cleaned."""
        del background
        return [
            segment
            if segment.control or segment.text.isprintable()
            else Segment(cleaned(segment.text), segment.style)
            for segment in segments
        ]


class CleanApp(App[ReturnType]):
    """An application that shows text of others."""

    _clean = CleanText()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Those of Textual after this one."""
        return [self._clean, *super().get_line_filters()]
