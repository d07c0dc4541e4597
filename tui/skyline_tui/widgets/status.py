"""What is going on: a measurement on its way, or what the checked changes bring together."""

from __future__ import annotations

from textual.content import Content

from skyline_tui.figures import MUTED, tail
from skyline_tui.widgets.words import Words

CELLS = 20


class Status(Words):
    """One line; a running measurement has it, otherwise it sums up."""

    def __init__(self) -> None:
        super().__init__(id="status")
        self._progress: Content | None = None
        self._rest = Content("")

    @property
    def busy(self) -> bool:
        """Whether a measurement is shown."""
        return self._progress is not None

    @property
    def room(self) -> int:
        """Cells of a line."""
        return self.content_size.width or self.app.size.width - 2

    def progress(self, title: str, text: str, fraction: float | None) -> None:
        """How far the measurement is."""
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
        """The measurement is over."""
        self._progress = None
        self._draw()

    def sum_up(self, content: Content) -> None:
        """What to show while nothing is measured."""
        self._rest = content
        self._draw()

    def _draw(self) -> None:
        self.set_class(self.busy, "-busy")
        self.say(self._progress if self._progress is not None else self._rest)
