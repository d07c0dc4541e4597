"""Throughput and memory by batch size: a bar for each point, with its number and how it is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from skyline import units
from skyline.report.basis import point_basis
from skyline.report.schema import CurvePointReport, ProfileReport
from skyline_tui.figures import BAR, MUTED
from skyline_tui.widgets.row_list import RowList

_MARKS = {"measured": "●", "interpolated": "○", "extrapolated": "?"}
_HERE = "◂"


class Curve(RowList):
    """One row for each batch size; Enter goes there."""

    @dataclass
    class Chosen(Message):
        """The person wants this batch size."""

        batch_size: int

    def __init__(self) -> None:
        super().__init__(id="curve", classes="panel")
        self.border_title = "Batch sizes: samples/s, peak (Enter goes there)"
        self.border_subtitle = "● measured  ○ predicted  ? extrapolated"
        self._profile: ProfileReport | None = None

    def show(self, profile: ProfileReport) -> None:
        """A new profile."""
        self._profile = profile
        self.redraw()

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Mark, batch size, bar, throughput, memory."""
        profile = self._profile
        points = profile.curve if profile else ()
        if profile is None or not points:
            reason = (profile.batch_size.reason or "no curve") if profile else "waiting for the first profile"
            yield "empty", Content.styled(reason, MUTED)
            return
        rates = units.rate_scale(point.throughput.value for point in points)
        sizes = units.byte_scale(point.peak_bytes.value for point in points)
        best = max(point.throughput.value for point in points) or 1.0
        numbers = {point.batch_size: _numbers(point, rates, sizes) for point in points}
        room = width - max(len(text) for text in numbers.values()) - 12
        for point in sorted(points, key=lambda point: point.batch_size):
            cells = max(round(point.throughput.value / best * room), 1) if room >= 4 else 0
            basis = point_basis(point)
            here = _HERE if point.batch_size == profile.batch_size.value else " "
            yield (
                str(point.batch_size),
                Content.assemble(
                    (_MARKS[basis], "$text-warning" if basis == "extrapolated" else ""),
                    (f"{point.batch_size:>6} ", "bold" if here == _HERE else ""),
                    (here + " ", "bold $text-primary"),
                    (BAR * cells, "$primary" if basis == "measured" else "$primary 60%"),
                    " " * (max(room, 0) - cells) if room >= 4 else "",
                    " ",
                    numbers[point.batch_size],
                ),
            )

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Enter, or a double click, goes there."""
        message.stop()
        if message.option.id and message.option.id.isdecimal():
            self.post_message(self.Chosen(int(message.option.id)))


def _numbers(point: CurvePointReport, rates: units.Scale, sizes: units.Scale) -> str:
    spread = f"±{rates.half_width(point.throughput)}" if point.throughput.half_width > 0 else ""
    return f"{rates.number(point.throughput.value):>6} {spread:<5} {sizes.text(point.peak_bytes.value):>9}"
