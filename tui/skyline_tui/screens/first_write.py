"""The question before the first change that live mode writes."""

from __future__ import annotations

from typing import Literal

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label

Answer = Literal["live", "staged"]


class FirstWrite(ModalScreen[Answer | None]):
    """Closes with the mode that the user wants. None: nothing is written now, and the next change asks again."""

    BINDINGS = (
        Binding("enter", "answer('live')", "Write", id="first-write.live"),
        Binding("m", "answer('staged')", "Staged", id="first-write.staged"),
        Binding("escape", "dismiss", "Not now", id="first-write.cancel"),
    )

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name_of_file = name

    def compose(self) -> ComposeResult:
        with Vertical(classes="prompt") as frame:
            frame.border_title = "Live mode"
            yield Label(
                f"Trying a change writes it into {self._name_of_file}; u undoes it. You see this once."
            )
            yield Label("Enter  write, now and from now on")
            yield Label("m      staged: only the key a writes")
            yield Label("Esc    not now")

    def action_answer(self, mode: Answer) -> None:
        self.dismiss(mode)
