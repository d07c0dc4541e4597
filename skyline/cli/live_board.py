"""The figures so far and a progress bar, redrawn in place on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from skyline.foreign_text import clean_console
from skyline.report.document import Document
from skyline.report.terminal import rendered

_ROWS_OF_BAR = 2
_PER_SECOND = 4
"""Redraws per second. Each takes time on the processor that runs the measured script."""


class LiveBoard(Progress):
    """A document above a bar at the bottom of the terminal. Both disappear at the end. Other text is printed above."""

    def __init__(self, stream: TextIO) -> None:
        self._figures: _Figures | None = None
        super().__init__(
            SpinnerColumn(),
            TextColumn("{task.fields[stage]:<8}", style="bold"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}", style="dim", markup=False),
            TimeElapsedColumn(),
            console=clean_console(file=stream, highlight=False),
            refresh_per_second=_PER_SECOND,
            transient=True,
        )
        self._stages = self.add_task("", total=1.0, stage="launch")

    def get_renderables(self) -> Iterable[RenderableType]:
        """The document and the bar, from top to bottom."""
        if self._figures is not None:
            yield self._figures
        yield from super().get_renderables()

    def advance_to(self, stage: str, message: str, fraction: float) -> None:
        """Move the bar."""
        self.update(self._stages, completed=fraction, description=message, stage=stage)

    def show(self, document: Document) -> None:
        """Replace the displayed document."""
        self._figures = _Figures(document)
        self.refresh()

    def write(self, text: str) -> None:
        """Print text above the board."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class _Figures:
    """A document that is laid out for the size of the terminal, and cut if there are too few rows."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._size = (0, 0)
        self._segments: tuple[Segment, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        if self._size != (console.width, console.height):
            self._size = console.width, console.height
            rows = [*Segment.split_lines(rendered(self._document, console).segments)]
            shown = rows[: max(0, console.height - _ROWS_OF_BAR)]
            self._segments = tuple(segment for row in shown for segment in (*row, Segment.line()))
        yield from self._segments
