"""Input of a batch size."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.validation import Integer
from textual.widgets import Input, Label


class TypeBatchSize(ModalScreen[int | None]):
    """Closes with the number, or with None."""

    BINDINGS = (Binding("escape", "dismiss", "Cancel", id="type.cancel"),)

    def __init__(self, current: int, begun: str = "") -> None:
        super().__init__()
        self._current = current
        self._begun = begun

    def compose(self) -> ComposeResult:
        """The question and the field."""
        with Vertical(classes="prompt") as frame:
            frame.border_title = "Batch size"
            yield Label(f"now {self._current}; Enter takes it, Esc leaves it")
            yield Input(self._begun, type="integer", validators=[Integer(minimum=1)], select_on_focus=False)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Accept the number, or show the error."""
        result = message.validation_result
        if result is None or not result.is_valid:
            self.notify("A batch size is a whole number from 1 on.", severity="warning")
            return
        self.dismiss(int(message.value))
