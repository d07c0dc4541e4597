"""The page of all messages: progress, notes, errors, the server's own log."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from rich.text import Text
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import RichLog, Static

from skyline_tui.figures import MUTED
from skyline_tui.views.view import View

_KEPT = 2000


class LogView(View):
    """One line per message, newest last, each with its time and origin."""

    def __init__(self) -> None:
        super().__init__(id="view-log", classes="view page")
        self._lines: deque[Text] = deque(maxlen=_KEPT)
        self._last = ""

    def parts(self) -> ComposeResult:
        yield Static(
            Content.styled("what happened in this session, newest last; y copies it", MUTED),
            classes="view-title",
        )
        log = RichLog(id="log", max_lines=_KEPT, wrap=True, markup=False, classes="panel")
        log.border_title = "Log"
        yield log

    def catch_up(self) -> None:
        for line in self._lines:
            self.query_one(RichLog).write(line)

    def shown(self) -> None:
        self.query_one(RichLog).focus()

    def write(self, source: str, text: str) -> None:
        """Add a message; repeated messages appear once."""
        if not text.strip():
            return
        words = f"{source:<8} {text.strip()}"
        if words == self._last:
            return
        self._last = words
        moment = datetime.now().strftime("%H:%M:%S")
        # No markup: the text may contain anything, including brackets.
        line = Text.assemble((f"{moment} ", "dim"), (f"{source:<8} ", "bold"), text.strip())
        self._lines.append(line)
        if self.made:
            self.query_one(RichLog).write(line)

    @property
    def text(self) -> str:
        """All stored messages as text."""
        return "\n".join(line.plain for line in self._lines)
