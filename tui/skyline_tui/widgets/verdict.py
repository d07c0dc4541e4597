"""The verdict: the cause that bounds the step, and the change that helps most."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from skyline.report.schema import VerdictReport
from skyline_tui.figures import MUTED, tail

_ROWS_FOR_BOTH = 30
"""Height of the terminal from which there is room for both sentences."""


class VerdictLines(Static):
    """One sentence on the step and one on a change, and the wall time; a click checks the change."""

    @dataclass
    class Wanted(Message):
        """The user clicked on the change, as it is typed on a command line."""

        whatif: str

    def __init__(self) -> None:
        super().__init__(id="verdict")
        self._verdict: VerdictReport | None = None
        self._wall_time = ""
        self.display = False

    def show(self, verdict: VerdictReport | None, wall_time: str = "") -> None:
        """Show the verdict on a new profile, with the shares of its wall time where there are any."""
        self._verdict, self._wall_time = verdict, wall_time
        self.display = verdict is not None
        self.refresh(layout=True)

    def on_resize(self) -> None:
        """Cut the sentences at the new width."""
        self.refresh(layout=True)

    def on_click(self) -> None:
        """Ask for the change."""
        if self._verdict is not None and self._verdict.choice is not None:
            self.post_message(self.Wanted(self._verdict.choice))

    def render(self) -> Content:
        """Both sentences, or the second one where the terminal is low."""
        verdict = self._verdict
        if verdict is None:
            return Content("")
        width = max(self.content_size.width or self.app.size.width - 2, 20)
        advice = Content.styled(tail(verdict.advice, width), "bold")
        if self.app.size.height < _ROWS_FOR_BOTH:
            return advice
        caution = (Content.styled(f" {verdict.caution}", "$warning"),) if verdict.caution else ()
        bound = Content.styled(tail(verdict.bound, width), MUTED)
        wall_time = [Content.styled(self._wall_time, MUTED)] if self._wall_time else []
        return Content("\n").join([bound, Content.assemble(advice, *caution), *wall_time])
