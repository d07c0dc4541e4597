"""Throughput and memory by batch size: for each point a bar with its range, its values and their origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from skyline import units
from skyline.interval import Interval
from skyline.report.basis import point_basis
from skyline.report.schema import CurvePointReport, ProfileReport
from skyline_tui.figures import BAR, MUTED, tail
from skyline_tui.widgets.row_list import RowList

_MARKS = {"measured": "●", "interpolated": "○", "predicted": "○", "extrapolated": "?"}
_HERE = "◂"
_BAND, _VALUE, _AS_IS = "░", "┃", "╎"
_TITLE = "Batch sizes: samples/s, peak (Enter selects one)"
_BEYOND = 1.3
"""Limit of a range beyond the best value: a wider one would leave no space for the bars."""
_LEAST_ROOM = 4


class Curve(RowList):
    """One row per batch size; Enter selects it. With what-ifs, the curve includes them."""

    @dataclass
    class SizeChosen(Message):
        """The user selected this batch size."""

        batch_size: int

    def __init__(self) -> None:
        super().__init__(id="curve", classes="panel")
        self.border_title = _TITLE
        self._profile: ProfileReport | None = None
        self._under: tuple[CurvePointReport, ...] = ()

    def show(self, profile: ProfileReport) -> None:
        self._profile = profile
        self.show_under(())

    def show_as_is(self) -> None:
        """Show the curve of the unchanged script, if another one is shown."""
        if self._under:
            self.show_under(())

    def show_under(self, whatifs: Sequence[str], points: tuple[CurvePointReport, ...] = ()) -> None:
        """Show the curve under what-ifs; without what-ifs or points, that of the unchanged script."""
        self._under = points if whatifs else ()
        with_them = f"{_TITLE.partition(' (')[0]} with {', '.join(whatifs)}"
        self.border_title = Content(tail(with_them, max(self.size.width - 4, 20)) if self._under else _TITLE)
        legend = f"{_BAND} range  ● measured  ○ predicted  ? extrapolated"
        self.border_subtitle = f"{_AS_IS} unchanged  {legend}" if self._under else legend
        self.redraw()

    def rows(self, width: int) -> Iterable[tuple[str, Content]]:
        """Mark, batch size, bar with its range, throughput, memory."""
        profile = self._profile
        points = self._under or (profile.curve if profile else ())
        if profile is None or not points:
            reason = (profile.batch_size.reason or "no curve") if profile else "waiting for the first profile"
            yield "empty", Content.styled(reason, MUTED)
            return
        as_is = {point.batch_size: point.throughput.value for point in profile.curve if self._under}
        rates = units.rate_scale(point.throughput.value for point in points)
        sizes = units.byte_scale(point.peak_bytes.value for point in points)
        best = max(*(point.throughput.value for point in points), *as_is.values(), 0.0) or 1.0
        top = max(best, *(min(point.throughput.high, _BEYOND * best) for point in points))
        usable = profile.memory.usable_bytes
        spreads = max(len(rates.spread(point.throughput)) for point in points)
        numbers = {point.batch_size: _numbers(point, rates, sizes, usable, spreads) for point in points}
        room = width - max(len(text) for text in numbers.values()) - 11
        predicted = profile.mode == "predicted" or bool(self._under)
        for point in sorted(points, key=lambda point: point.batch_size):
            basis = point_basis(point, predicted=predicted)
            here = _HERE if point.batch_size == profile.batch_size.value else " "
            was = as_is.get(point.batch_size)
            yield (
                str(point.batch_size),
                Content.assemble(
                    (_MARKS[basis], "$text-warning" if basis == "extrapolated" else ""),
                    (f"{point.batch_size:>6} ", "bold" if here == _HERE else ""),
                    (here + " ", "bold $text-primary"),
                    *(_bar(point.throughput, top, room, was) if room >= _LEAST_ROOM else ()),
                    " ",
                    numbers[point.batch_size],
                ),
            )

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Select the size, on Enter or a double click."""
        message.stop()
        if message.option.id and message.option.id.isdecimal():
            self.post_message(self.SizeChosen(int(message.option.id)))


def _bar(said: Interval, top: float, room: int, as_is: float | None) -> list[tuple[str, str]]:
    """A solid bar to the low end, the range up to the high end, and marks at the value and at the unchanged value.

    An exact value has no range.
    """

    def at(value: float) -> int:
        return max(0, min(room - 1, round(value / top * room) - 1))

    cells = [" "] * room
    low, high = at(said.low), at(said.high)
    cells[: low + 1] = [BAR] * (low + 1)
    if high > low:
        cells[low + 1 : high + 1] = [_BAND] * (high - low)
        cells[at(said.value)] = _VALUE
    if as_is is not None:
        cells[at(as_is)] = _AS_IS
    styles = {BAR: "$primary", _BAND: "$primary 60%", _VALUE: "bold $primary", _AS_IS: "$foreground"}
    return [("".join(run), styles.get(char, "")) for char, run in groupby(cells)]


def _numbers(
    point: CurvePointReport, rates: units.UnitScale, sizes: units.UnitScale, usable: int | None, width: int
) -> str:
    rate = f"{rates.number(point.throughput.value):>6}{rates.spread(point.throughput):<{max(6, width)}}"
    full = "!" if usable and point.peak_bytes.high > usable else " "
    return f"{rate} {sizes.text(point.peak_bytes.value):>9}{full}"
