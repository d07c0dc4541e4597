"""Every what-if with what it would bring; the checked ones are asked together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from skyline.report.place import middle
from skyline.report.schema import BaselineReport, EstimateReport, WhatIfReport
from skyline_tui.figures import MUTED, saved_memory, saved_time, spec, tail, time_scale_of
from skyline_tui.widgets.row_list import RowList

BATCH_SIZE = "batch_size"
"""Has the bars for itself and no row here."""


class WhatIfs(RowList):
    """Checked ``[x]``, unchecked ``[ ]``, and ``[!]`` with its reason where it does not apply."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space",
            "check",
            "Check",
            show=False,
            id="whatif.toggle",
            tooltip="Ask with this what-if, or without",
        ),
    ]

    @dataclass
    class Toggled(Message):
        """The checked what-ifs are now these, as ``NAME`` or ``NAME=VALUE``."""

        checked: tuple[str, ...]

    @dataclass
    class Asked(Message):
        """The person wants to know more about one."""

        estimate: EstimateReport
        baseline: BaselineReport

    def __init__(self) -> None:
        super().__init__(id="whatifs", classes="panel")
        self.border_title = "What-ifs (space toggles, Enter explains)"
        self.checked: tuple[str, ...] = ()
        self._baseline: BaselineReport | None = None
        self._estimates: dict[str, EstimateReport] = {}
        self._empty = "waiting for the first profile"

    def show(self, report: WhatIfReport | None) -> None:
        """New answers; what is checked stays checked where it still applies."""
        self._empty = "no what-if could be asked of this profile"
        self._baseline = report.baseline if report else None
        estimates = report.estimates if report else ()
        self._estimates = {spec(estimate): estimate for estimate in estimates if estimate.name != BATCH_SIZE}
        self.checked = tuple(
            name for name in self.checked if name in self._estimates and self._estimates[name].applicable
        )
        self.redraw()

    def propose(self, parts: Iterable[EstimateReport]) -> None:
        """Check these and no others; a part with another value than its row takes the row's place."""
        chosen = tuple(parts)
        new = {part.name: part for part in chosen if spec(part) not in self._estimates}
        rows = [new.get(estimate.name, estimate) for estimate in self._estimates.values()]
        self._estimates = {spec(row): row for row in (*rows, *new.values())}
        self.checked = tuple(map(spec, chosen))
        self.redraw()

    def uncheck(self, names: Iterable[str] | None = None) -> None:
        """Take marks away; all of them by default."""
        gone = set(self.checked if names is None else names)
        self.checked = tuple(name for name in self.checked if name not in gone)
        self.redraw()

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Name, change of time, semantics, change of memory, in columns."""
        baseline = self._baseline
        if baseline is None or not self._estimates:
            yield "empty", Content.styled(self._empty, MUTED)
            return
        possible = {name: item for name, item in self._estimates.items() if item.applicable}
        memories = {name: saved_memory(item, baseline) for name, item in possible.items()}
        longest = max(len(name) for name in self._estimates)
        memory_width = max(map(len, memories.values()), default=0)
        kind_width = max((len(item.semantics) for item in possible.values()), default=0)
        scale = time_scale_of(possible.values())
        # Columns move closer together before a name is cut.
        for gap in ("  ", " "):
            room = width - 4 - kind_width - memory_width - 3 * len(gap)
            time_room = room - min(longest, 15)
            times = {name: saved_time(item, scale, time_room) for name, item in possible.items()}
            time_width = max(map(len, times.values()), default=0)
            if longest + time_width <= room:
                break
        name_width = max(min(longest, room - time_width), 8)
        for name, estimate in self._estimates.items():
            label = middle(name, name_width).ljust(name_width)
            if not estimate.applicable:
                reason = tail(estimate.reason or "does not apply here", width - name_width - 4 - len(gap))
                yield name, Content.assemble(("[!] ", "$text-warning"), (f"{label}{gap}{reason}", MUTED))
                continue
            mark = ("[x] ", "bold $text-success") if name in self.checked else ("[ ] ", "")
            faster = estimate.change_ms.value < 0
            time = (times[name].rjust(time_width), "$text-success" if faster else "")
            semantics = (
                estimate.semantics.ljust(kind_width),
                "" if estimate.semantics == "exact" else "$text-warning",
            )
            yield (
                name,
                Content.assemble(
                    mark, label, gap, time, gap, semantics, gap, memories[name].rjust(memory_width)
                ),
            )

    def action_check(self) -> None:
        """Check or uncheck the row the cursor is on."""
        option = self.highlighted_option
        if option is not None and option.id:
            self._toggle(option.id)

    def clicked(self, event: events.Click) -> None:
        """The first click of a pair toggles, the second toggles back and explains."""
        self.action_check()
        super().clicked(event)

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Enter explains."""
        message.stop()
        estimate = self._estimates.get(message.option.id or "")
        if estimate is not None and self._baseline is not None:
            self.post_message(self.Asked(estimate, self._baseline))

    def _toggle(self, name: str) -> None:
        estimate = self._estimates.get(name)
        if estimate is None:
            return
        if not estimate.applicable:
            self.notify(estimate.reason or f"{name} does not apply here", title=name, severity="warning")
            return
        if name in self.checked:
            self.checked = tuple(other for other in self.checked if other != name)
        else:
            # Two values of one what-if exclude each other.
            same = {other for other in self.checked if self._estimates[other].name == estimate.name}
            self.checked = (*(other for other in self.checked if other not in same), name)
        self.redraw()
        self.post_message(self.Toggled(self.checked))
