"""The verdict: the cause that bounds the step, the change that helps most, and the mean iteration if it is long."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from skyline.report.schema import VerdictReport, WallTimeReport
from skyline_tui.figures import MUTED

_ROWS_FOR_ALL = 30
"""Height of the terminal, in rows, from which there is room for more than the change."""


class VerdictLines(Static):
    """Sentences on the step, on a change and on the mean iteration if it is long. A click checks the change."""

    @dataclass
    class Wanted(Message):
        """The user clicked on the change, which is given as on a command line."""

        whatif: str

    def __init__(self) -> None:
        super().__init__(id="verdict")
        self._verdict: VerdictReport | None = None
        self._remark = ""
        self.display = False

    def show(self, verdict: VerdictReport | None, wall_time: WallTimeReport | None = None) -> None:
        self._verdict = verdict
        self._remark = wall_time.remark if wall_time is not None else ""
        self.display = verdict is not None
        self.refresh(layout=True)

    def on_resize(self) -> None:
        """Wrap the sentences at the new width."""
        self.refresh(layout=True)

    def on_click(self) -> None:
        if self._verdict is not None and self._verdict.choice is not None:
            self.post_message(self.Wanted(self._verdict.choice))

    def render(self) -> Content:
        """All sentences, or only the change if the terminal is low."""
        verdict = self._verdict
        if verdict is None:
            return Content("")
        advice = Content.styled(verdict.advice, "bold")
        if self.app.size.height < _ROWS_FOR_ALL:
            return advice
        caution = (Content.styled(f" {verdict.caution}", "$warning"),) if verdict.caution else ()
        bound = Content.styled(verdict.bound, MUTED)
        remark = [Content.styled(self._remark, MUTED)] if self._remark else []
        return Content("\n").join([bound, Content.assemble(advice, *caution), *remark])
