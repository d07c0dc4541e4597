"""The lines of the user's code by cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from skyline import units
from skyline.report.place import common_base, fitted_path, place_of
from skyline.report.schema import LineReport, ProfileReport
from skyline_tui.figures import MUTED, tail
from skyline_tui.widgets.row_list import RowList

UNATTRIBUTED = "(not attributed to a line)"
ROOMY = 110
"""Width from which the phases have their own columns."""
HEAD = "head"
"""The row of column titles."""

_ORDERS: tuple[tuple[str, Callable[[LineReport], tuple[object, ...]]], ...] = (
    ("time", lambda line: (-line.self_ms,)),
    ("memory", lambda line: (-line.activation_bytes, -line.self_ms)),
    ("place", lambda line: (line.file, line.line)),
)


class Lines(RowList):
    """Place, code, time, share; the unattributed time is last, so that the column adds up."""

    @dataclass
    class SourceOpened(Message):
        """The user asks to see this line in its file."""

        line: LineReport

    def __init__(self) -> None:
        super().__init__(id="lines", classes="panel")
        self._profile: ProfileReport | None = None
        self._order = 0
        self._by_id: dict[str, LineReport] = {}
        self._title()

    @property
    def current(self) -> LineReport | None:
        """The line under the cursor; None on the unattributed time."""
        option = self.highlighted_option
        return self._by_id.get(option.id or "") if option else None

    def show(self, profile: ProfileReport) -> None:
        self._profile = profile
        self.redraw()

    def next_order(self) -> None:
        """Sort by the next criterion."""
        self._order = (self._order + 1) % len(_ORDERS)
        self._title()
        self.redraw()

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Numbers in full; the code takes the remaining width."""
        profile = self._profile
        if profile is None:
            yield "empty", Content.styled("waiting for the first profile", MUTED)
            return
        known = sorted((line for line in profile.lines if _known(line)), key=_ORDERS[self._order][1])
        rest = [line for line in profile.lines if not _known(line)]
        files = {line.file for line in known if line.file}
        # In a script of one file, its name would be the same in every row.
        base = None if files <= {profile.script} else common_base(profile.script, tuple(files))
        self._by_id = {f"{line.file}:{line.line}:{line.function}": line for line in known}
        scale = units.time_scale(line.self_ms for line in profile.lines)
        place_width = min(max((len(place_in(line, base)) for line in known), default=0), max(width // 4, 14))
        if width >= ROOMY:
            head = (
                f"{'forward':>8}{'backward':>10}{'optimizer':>11}  {'memory':>9}  {'time':>9}  {'share':>6}"
            )
            yield HEAD, Content.styled(head.rjust(width), MUTED)
        for line_id, line in [*self._by_id.items(), *(("unattributed", line) for line in rest)]:
            yield line_id, _row(line, scale, base, place_width, width)

    def clicked(self, event: events.Click) -> None:
        """Open on a single click, since viewing changes nothing."""
        self.action_select()

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        message.stop()
        line = self._by_id.get(message.option.id or "")
        if line is not None and line.file:
            self.post_message(self.SourceOpened(line))

    def _title(self) -> None:
        self.border_title = "Costliest lines (Enter opens)"
        self.border_subtitle = f"by {_ORDERS[self._order][0]} · s sorts"


def _known(line: LineReport) -> bool:
    """True for a line of the user's code or an operator of a trace, false for the unattributed time."""
    return bool(line.line or line.source)


def place_in(line: LineReport, base: Path | None) -> str:
    """The place of a line in its table, relative to ``base``; empty for the time that belongs to no line."""
    if not line.line:
        return ""
    return line.cell or (f":{line.line}" if base is None else place_of(line, base))


def _row(
    line: LineReport, scale: units.UnitScale, base: Path | None, place_width: int, width: int
) -> Content:
    numbers = f"{scale.text(line.self_ms):>9}  {units.format_share(line.share):>6}"
    if width >= ROOMY:
        memory = units.format_bytes(line.activation_bytes) if line.activation_bytes else ""
        parts = (line.forward_ms, line.backward_ms, line.optimizer_ms)
        columns = zip(parts, (8, 10, 11), strict=True)
        phases = "".join((scale.number(part) if part else "·").rjust(cells) for part, cells in columns)
        numbers = f"{phases}  {memory:>9}  {numbers}"
    room = width - place_width - len(numbers) - 4
    where = fitted_path(place_in(line, base), place_width).ljust(place_width)
    code = tail(line.source.strip() if _known(line) else UNATTRIBUTED, room).ljust(room)
    return Content.assemble(
        (where, "$text-primary"), "  ", (code, "" if _known(line) else MUTED), "  ", numbers
    )
