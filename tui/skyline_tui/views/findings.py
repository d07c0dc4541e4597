"""The page of performance problems: evidence, cost and fix of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static

from skyline import units
from skyline.report.place import common_base, place_of
from skyline.report.schema import FindingReport, ProfileReport
from skyline_tui.figures import ARROW, MUTED, tail
from skyline_tui.views.view import Place, View
from skyline_tui.widgets.row_list import RowList

DOCUMENTATION = "docs/findings/{code}.md"


class FindingRows(RowList):
    """One row per finding, highest cost first."""

    def __init__(self) -> None:
        super().__init__(id="finding-rows", classes="panel")
        self.border_title = "Findings (Enter opens the line)"
        self.border_subtitle = "Space tries the fix"
        self._profile: ProfileReport | None = None

    def show(self, profile: ProfileReport) -> None:
        self._profile = profile
        self.redraw()

    @property
    def current(self) -> FindingReport | None:
        """The finding under the cursor."""
        option = self.highlighted_option
        if self._profile is None or option is None or not (option.id or "").isdecimal():
            return None
        return self._profile.findings[int(option.id or "0")]

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Code, cost, title."""
        profile = self._profile
        if profile is None or not profile.findings:
            text = "No rule found a problem in this profile." if profile else "waiting for the first profile"
            yield "empty", Content.styled(text, MUTED)
            return
        scale = units.time_scale(finding.cost_ms for finding in profile.findings)
        for number, finding in enumerate(profile.findings):
            cost = scale.text(finding.cost_ms) if finding.cost_ms > 0 else ""
            cure = f" {ARROW}" if finding.whatif else "  "
            yield (
                str(number),
                Content.assemble(
                    (finding.code, "$text-warning"), f" {cost:>9}{cure} ", tail(finding.title, width - 20)
                ),
            )


class FindingsView(View):
    """The list, with the details of the selected finding."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "cure", "Try the fix", show=False, id="finding.cure")
    ]

    @dataclass
    class Tried(Message):
        """The user asks for the effect of a fix."""

        whatif: str

    def __init__(self) -> None:
        super().__init__(id="view-findings", classes="view page")
        self._profile: ProfileReport | None = None
        self._base: Path | None = None

    def parts(self) -> ComposeResult:
        with Container(classes="two-panes"):
            yield FindingRows()
            with VerticalScroll(id="finding-story", classes="panel") as story:
                story.border_title = "Evidence"
                yield Static(id="finding-text")

    def show(self, profile: ProfileReport) -> None:
        self._profile = profile
        self._base = common_base(profile.script, tuple(line.file for line in profile.lines if line.file))
        if self.made:
            self.catch_up()

    def catch_up(self) -> None:
        if self._profile is not None:
            self.query_one(FindingRows).show(self._profile)
            self._tell()

    def shown(self) -> None:
        self.query_one(FindingRows).focus()

    @property
    def place(self) -> Place | None:
        finding = self.query_one(FindingRows).current
        return (finding.file, finding.line) if finding is not None and finding.file else None

    def action_cure(self) -> None:
        finding = self.query_one(FindingRows).current
        if finding is None:
            return
        if finding.whatif is None:
            self.notify("No what-if is predicted to fix this: the evidence shows where to look.")
        else:
            self.post_message(self.Tried(finding.whatif))

    def on_option_list_option_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        message.stop()
        self._tell()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        if self.place is None:
            self.notify("This finding has no single line.")
        else:
            self.post_message(self.PlaceChosen(*self.place))

    def _tell(self) -> None:
        finding = self.query_one(FindingRows).current
        text = self.query_one("#finding-text", Static)
        text.update(Content("") if finding is None else Content("\n").join(_story(finding, self._base)))


def _story(finding: FindingReport, base: Path | None) -> list[Content]:
    lines = [Content.styled(finding.title, "bold"), Content("")]
    facts = {
        "where": place_of(finding, base) if finding.file else "no single line",
        "cost": f"{units.format_ms(finding.cost_ms)} per iteration"
        if finding.cost_ms > 0
        else "no iteration time",
        "fix": f"{finding.whatif}   (Space tries it)"
        if finding.whatif
        else "no what-if is predicted to help here",
        "more": DOCUMENTATION.format(code=finding.code),
    }
    lines += [Content.assemble((f"{name:<8}", MUTED), value) for name, value in facts.items()]
    lines += [Content(""), Content.styled("Evidence", "bold")]
    own = finding.file, finding.line
    for one in finding.evidence:
        at = "" if not one.file or (one.file, one.line) == own else f"{place_of(one, base)}: "
        lines.append(Content(f"· {at}{one.text}"))
    return lines
