"""The input of limits before a search: for the best combination by simulation, or by measured trials."""

from __future__ import annotations

from typing import Literal, cast

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.validation import Integer, Number
from textual.widgets import Checkbox, Input, Label, RadioButton, RadioSet

from skyline.report.protocol import BestParams, TuneParams

Allowed = Literal["exact", "numerics", "convergence", "model"]
_ALLOWED: tuple[tuple[Allowed, str], ...] = (
    ("exact", "exact: only changes that keep the computation"),
    ("numerics", "numerics: rounding may differ too"),
    ("convergence", "convergence: training may converge differently"),
    ("model", "model: a different model may be trained"),
)


class Choice(RadioButton):
    """A radio button whose mark shows its state without its colour, too."""

    def __init__(self, label: str, *, value: bool, id: str) -> None:
        super().__init__(label, value=value, id=id)
        self.BUTTON_INNER = _MARKS[value]

    def watch_value(self) -> None:
        """Change the mark."""
        self.BUTTON_INNER = _MARKS[self.value]
        super().watch_value()


class Consent(Checkbox):
    """A box whose mark shows its state without its colour, too."""

    def __init__(self, label: str, *, value: bool) -> None:
        super().__init__(label, value=value)
        self.BUTTON_INNER = _CROSSES[value]

    def watch_value(self) -> None:
        """Change the mark."""
        self.BUTTON_INNER = _CROSSES[self.value]
        super().watch_value()


_MARKS, _CROSSES = ("○", "●"), (" ", "X")
"""The marks of both states: off and on."""


class Limits(ModalScreen[BestParams | None]):
    """Closes with the limits, or with None."""

    BINDINGS = (Binding("escape", "dismiss", "Cancel", id="limits.cancel"),)

    def __init__(self, uri: str, usable_bytes: float) -> None:
        super().__init__()
        self._uri = uri
        self._usable = usable_bytes

    def compose(self) -> ComposeResult:
        with Vertical(classes="prompt") as frame:
            frame.border_title = "Fastest combination"
            yield Label("peak memory limit in GB (Enter searches, Esc cancels)")
            yield Input(f"{self._usable / 1e9:.3g}", type="number", validators=[Number(minimum=0.001)])
            with RadioSet():
                for name, text in _ALLOWED:
                    yield Choice(text, value=name == "convergence", id=name)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Accept both limits, or show the error."""
        result = message.validation_result
        if result is None or not result.is_valid:
            self.notify("Type a number of gigabytes, such as 8.", severity="warning")
            return
        pressed = self.query_one(RadioSet).pressed_button
        allowed = cast(Allowed, pressed.id if pressed is not None and pressed.id else "convergence")
        # The field shows a rounded number, but the default is the exact memory of the whole device.
        offered = message.value == f"{self._usable / 1e9:.3g}"
        memory_bytes = self._usable if offered else float(message.value) * 1e9
        self.dismiss(BestParams(self._uri, memory_bytes, allowed))


class TypeBatchSize(ModalScreen[int | None]):
    """Closes with the number, or with None."""

    BINDINGS = (Binding("escape", "dismiss", "Cancel", id="type.cancel"),)

    def __init__(self, current: int, begun: str = "") -> None:
        super().__init__()
        self._current = current
        self._begun = begun

    def compose(self) -> ComposeResult:
        with Vertical(classes="prompt") as frame:
            frame.border_title = "Batch size"
            yield Label(f"now {self._current}; Enter accepts it, Esc cancels")
            yield Input(self._begun, type="integer", validators=[Integer(minimum=1)], select_on_focus=False)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        result = message.validation_result
        if result is None or not result.is_valid:
            self.notify("A batch size is a whole number, 1 or more.", severity="warning")
            return
        self.dismiss(int(message.value))


class TuneLimits(ModalScreen[TuneParams | None]):
    """Closes with the limits of a search by trials, or with None."""

    BINDINGS = (Binding("escape", "dismiss", "Cancel", id="tune-limits.cancel"),)

    def __init__(self, uri: str, *, resumable: bool) -> None:
        super().__init__()
        self._uri = uri
        self._resumable = resumable

    def compose(self) -> ComposeResult:
        with Vertical(classes="prompt") as frame:
            frame.border_title = "Search by measured trials"
            yield Label("time limit in minutes (Enter searches, Esc cancels)")
            yield Input("5", type="number", validators=[Number(minimum=0.1)])
            with RadioSet():
                for name, text in _ALLOWED:
                    yield Choice(text, value=name == "exact", id=name)
            if self._resumable:
                yield Consent("continue from the trials so far", value=True)

    def on_input_submitted(self, message: Input.Submitted) -> None:
        result = message.validation_result
        if result is None or not result.is_valid:
            self.notify("Type a number of minutes, such as 5.", severity="warning")
            return
        pressed = self.query_one(RadioSet).pressed_button
        allowed = cast(Allowed, pressed.id if pressed is not None and pressed.id else "exact")
        resume = any(one.value for one in self.query(Checkbox))
        self.dismiss(TuneParams(self._uri, 60 * float(message.value), allowed, resume=resume))
