"""The inputs of a plan: model, cluster, number of GPUs, amount of training, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Label, Select

from skyline.report.plan_report import ClusterReport, PlanChoices
from skyline.report.protocol import PlanParams

SCRIPT = "this script"
_FIELDS = (
    ("gpus", "GPUs", "8..64"),
    ("amount", "samples", "10M"),
    ("budget", "budget", "$5000"),
    ("deadline", "deadline", "3d"),
)
"""Id, label and example of each text field."""


class PlanQuestion(Horizontal):
    """Posts a request for a plan when the user selects a choice or presses the Enter key in a field."""

    @dataclass
    class Asked(Message):
        """The user asks for this plan."""

        params: PlanParams

    def __init__(self, uri: str) -> None:
        super().__init__(id="plan-question")
        self._uri = uri
        self._asked: PlanParams | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="plan-choice"):
            yield Label("model")
            yield Select([(SCRIPT, "")], value="", allow_blank=False, compact=True, id="plan-model")
        with Vertical(classes="plan-choice"):
            yield Label("cluster")
            yield Select[str]([], prompt="choose", compact=True, id="plan-cluster")
        for name, title, example in _FIELDS:
            with Vertical(classes="plan-field"):
                yield Label(title, id=f"plan-{name}-label")
                yield Input(placeholder=example, compact=True, id=f"plan-{name}")

    def offer(self, choices: PlanChoices) -> None:
        """Fill the lists; the chosen values stay."""
        model: Select[str] = self.query_one("#plan-model", Select)
        cluster: Select[str] = self.query_one("#plan-cluster", Select)
        chosen = self.cluster
        with self.prevent(Select.Changed):
            model.set_options([(SCRIPT, ""), *((name, name) for name in choices.models)])
            cluster.set_options([(_words(one), one.name) for one in choices.clusters])
            if any(one.name == chosen for one in choices.clusters):
                cluster.value = chosen

    @property
    def cluster(self) -> str:
        """The chosen cluster; empty if none is chosen."""
        value = self.query_one("#plan-cluster", Select).value
        return value if isinstance(value, str) else ""

    def focus_first(self) -> None:
        """Focus the choice of a cluster."""
        self.query_one("#plan-cluster", Select).focus()

    def forget(self) -> None:
        """Forget the last question, which had no answer, so that the same plan can be asked for again."""
        self._asked = None

    def on_select_changed(self, message: Select.Changed) -> None:
        message.stop()
        if message.select.id == "plan-model":
            unit = "tokens" if message.value else "samples"
            self.query_one("#plan-amount-label", Label).update(unit)
            self.query_one("#plan-amount", Input).placeholder = "10B" if message.value else "10M"
        self._ask()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Ask for a plan, even if the texts are the same as before."""
        message.stop()
        self.forget()
        self._ask()

    def _text(self, name: str) -> str:
        return self.query_one(f"#plan-{name}", Input).value.strip()

    def _ask(self) -> None:
        model = self.query_one("#plan-model", Select).value
        params = PlanParams(
            self._uri,
            self.cluster,
            model if isinstance(model, str) else "",
            gpus=self._text("gpus"),
            amount=self._text("amount"),
            budget=self._text("budget"),
            deadline=self._text("deadline"),
        )
        if params.cluster and params != self._asked:
            self._asked = params
            self.post_message(self.Asked(params))


def _words(one: ClusterReport) -> str:
    return f"{one.name}  {one.gpus_per_node}x {one.gpu}"
