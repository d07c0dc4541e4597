"""The status line: a running measurement, or the joint effect of the checked changes."""

from __future__ import annotations

from textual.content import Content

from skyline_tui.figures import MUTED, tail
from skyline_tui.widgets.words import Words

CELLS = 20


class Status(Words):
    """One line; a running measurement takes precedence over the summary."""

    def __init__(self) -> None:
        super().__init__(id="status")
        self._progress: Content | None = None
        self._rest = Content("")

    @property
    def busy(self) -> bool:
        """True if a measurement is shown."""
        return self._progress is not None

    @property
    def room(self) -> int:
        """Width of a line, in cells."""
        return self.content_size.width or self.app.size.width - 2

    def progress(self, title: str, text: str, fraction: float | None) -> None:
        """Show the progress of the measurement."""
        done = round((fraction or 0) * CELLS)
        share = f" {fraction * 100:.0f} %" if fraction is not None else ""
        bar = f"▕{'█' * done}{'┄' * (CELLS - done)}▏" if fraction is not None else ""
        what = text or title or "measuring"
        self._progress = Content.assemble(
            (bar + share, "$text-primary"),
            "  ",
            tail(what, self.app.size.width - 45),
            "   ",
            ("c cancels", MUTED),
        )
        self._draw()

    def done(self) -> None:
        """Handle the end of the measurement."""
        self._progress = None
        self._draw()

    def sum_up(self, content: Content) -> None:
        """Set the text for the time without a measurement."""
        self._rest = content
        self._draw()

    def _draw(self) -> None:
        self.set_class(self.busy, "-busy")
        self.say(self._progress if self._progress is not None else self._rest)
