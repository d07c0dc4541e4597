"""Removes terminal control sequences from foreign text in everything that is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.app import App, ReturnType
from textual.color import Color
from textual.filter import LineFilter

from skyline.foreign_text import cleaned


class CleanText(LineFilter):
    """Removes characters of a line that a terminal would interpret. They have zero width, so nothing moves."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with cleaned text."""
        del background
        return [
            segment
            if segment.control or segment.text.isprintable()
            else Segment(cleaned(segment.text), segment.style)
            for segment in segments
        ]


class CleanApp(App[ReturnType]):
    """An application that displays foreign text."""

    _clean = CleanText()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's filters, after this one."""
        return [self._clean, *super().get_line_filters()]
