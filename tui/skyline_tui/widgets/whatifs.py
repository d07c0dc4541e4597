"""Every what-if with its predicted effect; the checked ones are combined."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from skyline.report.basis import UNKNOWN, direction, is_known, one_off_words
from skyline.report.place import middle
from skyline.report.schema import BaselineReport, EstimateReport, TrackRecordReport, WhatIfReport
from skyline_tui.figures import (
    DIRECTION_STYLES,
    MUTED,
    fitting,
    saved_memory,
    saved_time,
    time_scale_of,
)
from skyline_tui.widgets.row_list import RowList

HEAD = "head"
"""The row of column titles."""
REST = "rest"
"""The row between applicable and other what-ifs."""
CHOICE = " ‹›"
"""The mark of a what-if with other values."""
SHORT = {"exact": "exact", "numerics": "num.", "convergence": "conv.", "model": "model"}
ON = "[on]"
_MARK = 4


def whatif_rows(
    estimates: Mapping[str, EstimateReport],
    checked: Collection[str],
    baseline: BaselineReport,
    width: int,
    spent: Collection[str] = (),
) -> Iterator[tuple[str, Content]]:
    """Id and content of every row, in the given order; what-ifs in the code but not yet measured have ``[w]``."""
    possible = {name: item for name, item in estimates.items() if item.applicable}
    rest = {name: item for name, item in estimates.items() if not item.applicable}
    switches = {name: item for name, item in rest.items() if item.present is not None}
    others = {name: item for name, item in rest.items() if item.present is None}
    yield from _applicable(possible, checked, baseline, width, spent)
    for name, estimate in switches.items():
        yield name, _switch(estimate, width)
    if (possible or switches) and others:
        yield REST, Content.styled(f"do not apply here ({len(others)}):", MUTED)
    names = min(max(map(len, others), default=0), max(width // 3, 8))
    for name, estimate in others.items():
        label = middle(name, names).ljust(names)
        reason = textwrap.wrap(estimate.reason or "does not apply here", max(width - names - _MARK - 2, 20))
        margin = "\n" + " " * (_MARK + names + 2)
        yield name, Content.styled(f"[!] {label}  {margin.join(reason)}", MUTED)


def _switch(estimate: EstimateReport, width: int) -> Content:
    """The row of a what-if that is in the code. Space removes it if possible."""
    value = estimate.present or ""
    label = estimate.name if value in ("", "on") else f"{estimate.name}={value}"
    if estimate.removal == "available":
        said = "in the code; Space removes it"
    else:
        said = f"in the code; {estimate.removal_reason or 'you have to remove it by hand'}"
    label = middle(label, max(width // 3, 8))
    lines = textwrap.wrap(said, max(width - len(label) - len(ON) - 3, 20))
    margin = "\n" + " " * (len(ON) + len(label) + 3)
    return Content.assemble((f"{ON} ", "bold $text-primary"), label, "  ", (margin.join(lines), MUTED))


def _applicable(
    estimates: Mapping[str, EstimateReport],
    checked: Collection[str],
    baseline: BaselineReport,
    width: int,
    spent: Collection[str],
) -> Iterator[tuple[str, Content]]:
    """Name, change of time, semantics, change of memory."""
    labels = {name: name + CHOICE * bool(item.values) for name, item in estimates.items()}
    memories = {name: saved_memory(item, baseline) for name, item in estimates.items()}
    longest = max(map(len, labels.values()), default=0)
    memory_width = max(map(len, memories.values()), default=0)
    scale = time_scale_of(estimates.values())
    gap, time_width, kind_width, room = "  ", 0, 0, width
    kinds, times = dict[str, str](), dict[str, str]()
    # Reduce the space between columns and shorten words before cutting a name.
    for gap, short in (("  ", False), (" ", False), (" ", True)):
        kinds = {name: SHORT[item.semantics] if short else item.semantics for name, item in estimates.items()}
        kind_width = max(map(len, kinds.values()), default=0)
        room = width - _MARK - kind_width - memory_width - 3 * len(gap)
        time_room = room - min(longest, 15)
        times = {
            name: saved_time(item, scale, time_room) if is_known(item.speedup_range) else UNKNOWN
            for name, item in estimates.items()
        }
        time_width = max(map(len, times.values()), default=0)
        if longest + time_width <= room:
            break
    name_width = max(min(longest, room - time_width), 8)
    if estimates:
        titles = (
            fitting(time_width, "change per iteration", "per iteration", "time", "").rjust(time_width),
            fitting(kind_width, "results", "").ljust(kind_width),
            fitting(memory_width, "peak memory", "memory", "").rjust(memory_width),
        )
        yield HEAD, Content.styled(gap.join((" " * (_MARK + name_width), *titles)), MUTED)
    for name, estimate in estimates.items():
        sign = "[w] " if name in spent else "[x] "
        mark = (sign, "bold $text-success") if name in checked else ("[ ] ", "")
        more = CHOICE if estimate.values else ""
        label = middle(name, name_width - len(more))
        blank = " " * (name_width - len(label) - len(more))
        time = (times[name].rjust(time_width), DIRECTION_STYLES[direction(estimate.speedup_range)])
        kind = (
            kinds[name].ljust(kind_width),
            "" if estimate.semantics == "exact" else "$text-warning",
        )
        memory = memories[name].rjust(memory_width)
        row = Content.assemble(mark, label, (more, MUTED), blank, gap, time, gap, kind, gap, memory)
        yield name, row + _once(estimate, width)


def _once(estimate: EstimateReport, width: int) -> Content:
    """The one-off cost on separate lines, because it reduces the gain per iteration."""
    words = one_off_words(estimate.one_off_s, estimate.break_even_iterations)
    if not words:
        return Content("")
    margin = " " * _MARK
    lines = textwrap.wrap(f"once: {words}", max(width - _MARK, 20))
    return Content.styled("".join(f"\n{margin}{line}" for line in lines), MUTED)


BATCH_SIZE = "batch_size"
"""The what-if of the bars, which has no row here."""


class WhatIfs(RowList):
    """Checked ``[x]``, unchecked ``[ ]``, ``[on]`` if the code has it, ``[!]`` if it does not apply."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space",
            "check",
            "Try",
            id="whatif.toggle",
            tooltip="Check or uncheck this what-if",
        ),
        Binding("right,plus", "vary(1)", "Next value", show=False, id="whatif.next"),
        Binding("left,minus", "vary(-1)", "Previous value", show=False, id="whatif.previous"),
    ]

    unreachable = frozenset({HEAD, "empty", REST})

    @dataclass
    class Toggled(Message):
        """The new list of checked what-ifs, as ``NAME`` or ``NAME=VALUE``."""

        checked: tuple[str, ...]

    @dataclass
    class SwitchedOff(Message):
        """The user asks to remove a what-if from the code."""

        whatif: str

    @dataclass
    class Asked(Message):
        """The user asks for an explanation."""

        estimate: EstimateReport
        baseline: BaselineReport
        record: TrackRecordReport | None

    @dataclass
    class ValueWanted(Message):
        """The user asks for another value of a what-if: ``NAME=VALUE``."""

        whatif: str

    def __init__(self) -> None:
        super().__init__(id="whatifs", classes="panel")
        self.border_title = "What-ifs (space toggles, Enter explains, ← → value)"
        self.checked: tuple[str, ...] = ()
        self.spent: frozenset[str] = frozenset()
        """Checked what-ifs that are written into the code and not yet measured."""
        self._baseline: BaselineReport | None = None
        self._estimates: dict[str, EstimateReport] = {}
        self._other_values: dict[str, EstimateReport] = {}
        self._at: dict[str, str] = {}
        self._records: tuple[TrackRecordReport, ...] = ()
        self._empty = "waiting for the first profile"

    def show(self, report: WhatIfReport | None) -> None:
        """Show new answers; checked what-ifs stay checked if they still apply."""
        self._empty = "no what-if can be predicted from this profile"
        self._baseline = report.baseline if report else None
        estimates = report.estimates if report else ()
        known = [estimate for estimate in estimates if estimate.name != BATCH_SIZE]
        known.sort(key=lambda estimate: (not estimate.applicable, estimate.present is None))
        self._estimates = {estimate.spec: estimate for estimate in known}
        self._other_values, self._at = dict(self._estimates), {}
        self.learn(report)
        self.checked = tuple(
            name for name in self.checked if name in self._estimates and self._estimates[name].applicable
        )
        self.redraw()

    def learn(self, report: WhatIfReport | None) -> None:
        """Update the track records of earlier predictions."""
        self._records = report.ledger if report else ()

    def show_value(self, estimate: EstimateReport) -> None:
        """Show a what-if at another value, unless the user has moved on."""
        name = estimate.spec
        self._other_values[name] = estimate
        if self._at.get(estimate.name) != estimate.value:
            return
        row = next((row for row, shown in self._estimates.items() if shown.name == estimate.name), None)
        if row is None or row == name:
            return
        at = self.highlighted
        self._estimates = {
            (name if key == row else key): (estimate if key == row else shown)
            for key, shown in self._estimates.items()
        }
        asked = row in self.checked
        applies = (name,) if estimate.applicable else ()
        if asked:
            self.checked = (*(other for other in self.checked if other != row), *applies)
        self.redraw()
        self.highlighted = at
        if asked:
            self.post_message(self.Toggled(self.checked))

    def propose(self, parts: Iterable[EstimateReport]) -> None:
        """Check exactly these; a part with another value replaces the value of its row."""
        chosen = tuple(parts)
        new = {part.name: part for part in chosen if part.spec not in self._estimates}
        rows = [new.get(estimate.name, estimate) for estimate in self._estimates.values()]
        self._estimates = {row.spec: row for row in (*rows, *new.values())}
        self.checked = tuple(one.spec for one in chosen)
        self.redraw()

    def uncheck(self, names: Iterable[str] | None = None) -> None:
        """Remove check marks; all of them by default."""
        gone = set(self.checked if names is None else names)
        self.spent -= gone
        self.checked = tuple(name for name in self.checked if name not in gone)
        self.redraw()

    def spend(self, names: Iterable[str]) -> None:
        """Mark these as written into the code."""
        self.spent = frozenset(names)
        self.redraw()

    def check(self, whatif: str) -> bool:
        """Check a what-if by name, at its current or the given value; False if it is not in the list."""
        row = next((row for row in self._estimates if whatif in (row, self._estimates[row].name)), None)
        if row is None:
            return False
        ids = [option.id for option in self.options]
        self.highlighted = ids.index(row) if row in ids else None
        if row not in self.checked:
            self._toggle(row)
        return row in self.checked

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Applicable what-ifs, best first, then the others with their reasons."""
        baseline = self._baseline
        if baseline is None or not self._estimates:
            yield "empty", Content.styled(self._empty, MUTED)
            return
        yield from whatif_rows(self._estimates, self.checked, baseline, width, self.spent)

    def action_check(self) -> None:
        option = self.highlighted_option
        if option is not None and option.id:
            self._toggle(option.id)

    def action_vary(self, change: int) -> None:
        """Select another value of the row, wrapping around at the ends."""
        option = self.highlighted_option
        estimate = self._estimates.get(option.id or "") if option is not None else None
        if estimate is None:
            return
        if not estimate.values:
            self.notify(f"{estimate.name} has one value only.")
            return
        now = self._at.get(estimate.name, estimate.value)
        at = estimate.values.index(now) if now in estimate.values else 0
        value = self._at[estimate.name] = estimate.values[(at + change) % len(estimate.values)]
        name = f"{estimate.name}={value}" if value else estimate.name
        known = self._other_values.get(name)
        if known is not None:
            self.show_value(known)
        else:
            self.post_message(self.ValueWanted(name))

    def clicked(self, event: events.Click) -> None:
        """The first click of a double click toggles, the second toggles back and explains."""
        self.action_check()
        super().clicked(event)

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        estimate = self._estimates.get(message.option.id or "")
        if estimate is not None and self._baseline is not None:
            record = next((record for record in self._records if record.whatif == estimate.name), None)
            self.post_message(self.Asked(estimate, self._baseline, record))

    def _toggle(self, name: str) -> None:
        estimate = self._estimates.get(name)
        if estimate is None:
            return
        if estimate.present is not None and not estimate.applicable:
            if estimate.removal == "available":
                self.post_message(self.SwitchedOff(estimate.name))
            else:
                reason = estimate.removal_reason or "you have to make this change by hand"
                self.notify(
                    f"It is in the code and cannot be removed: {reason}", title=name, severity="warning"
                )
            return
        if not estimate.applicable:
            self.notify(estimate.reason or f"{name} does not apply here", title=name, severity="warning")
            return
        if name in self.checked:
            self.checked = tuple(other for other in self.checked if other != name)
        else:
            # Two values of one what-if are mutually exclusive.
            same = {other for other in self.checked if self._estimates[other].name == estimate.name}
            self.checked = (*(other for other in self.checked if other not in same), name)
        self.redraw()
        self.post_message(self.Toggled(self.checked))
