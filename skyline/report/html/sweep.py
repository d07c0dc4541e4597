"""The page of a sweep: time, memory and utilisation over the values of the first setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from skyline import units
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.report.document import Document
from skyline.report.html.chart import BOX, LOGARITHMIC_FROM, Chart, Dot, Tick, nice_ticks, tick_label, x_scale
from skyline.report.html.page import PageNames, as_script, filled
from skyline.report.sweep import SweepPointReport, SweepReport, SweepSeriesReport, script_name

_LEAST_APART = 34
"""Room of a label on the axis."""


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A figure of the points, in the unit of its axis."""

    title: str
    unit: str
    factor: float
    of: Callable[[SweepPointReport], Interval | None]
    told: Callable[[float], str]
    basis: Callable[[SweepPointReport], str]


def render_sweep(page: Document, report: SweepReport) -> str:
    """The page as one string of HTML, with the report in it as JSON. The charts are those of the first series."""
    names = PageNames(
        f"{script_name(report)}: {report.name}",
        " ".join(report.series[0].sentences) if report.series else "",
        "Sweep",
    )
    drawn = _charts(report.series[0], report) if report.series else ()
    return filled(page, names, as_script({"sweep": report}), {"curve": drawn})


def _charts(series: SweepSeriesReport, report: SweepReport) -> tuple[Chart, ...]:
    points = series.points
    time = units.time_scale(point.iteration_ms.value for point in points)
    size = units.byte_scale([max((point.peak_bytes or 0) for point in points)])
    quantities = (
        _Quantity(
            "Time",
            time.unit,
            time.factor,
            lambda point: point.iteration_ms,
            units.format_ms,
            lambda point: point.provenance,
        ),
        _Quantity(
            "Peak memory",
            size.unit,
            size.factor,
            lambda point: _exact(point.peak_bytes),
            units.format_bytes,
            lambda point: report.mode,
        ),
        _Quantity(
            "Utilisation",
            "% of the peak FLOP rate",
            100.0,
            lambda point: _exact(point.utilisation),
            units.format_share,
            lambda point: point.provenance,
        ),
    )
    made = (_chart(one, points, report) for one in quantities)
    return tuple(one for one in made if one is not None)


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval.exact(float(value))


def _chart(quantity: _Quantity, points: Sequence[SweepPointReport], report: SweepReport) -> Chart | None:
    known = [(point, value) for point in points if (value := quantity.of(point)) is not None]
    if len(known) < 2:
        return None
    top = max(value.high for _, value in known) * quantity.factor
    y_values = nice_ticks(top)
    y_top = max(y_values[-1], top) or 1.0

    def y(value: float) -> float:
        share = value * quantity.factor / y_top
        return round(BOX.height - BOX.bottom - share * (BOX.height - BOX.top - BOX.bottom), 1)

    low, high = known[0][0].values[0], known[-1][0].values[0]
    x = x_scale(low, high, may_bend=len(known) <= LOGARITHMIC_FROM)
    places = [(x(point.values[0]), y(value.value)) for point, value in known]
    highs = [f"{x(point.values[0])},{y(value.high)}" for point, value in known]
    lows = [f"{x(point.values[0])},{y(value.low)}" for point, value in known]
    now = next((point.values[0] for point, _ in known if point.now), None)
    first, last = known[0], known[-1]
    return Chart(
        title=quantity.title,
        unit=quantity.unit,
        summary=f"{quantity.title} from {quantity.told(first[1].value)} at {report.name} {first[0].values[0]} to "
        f"{quantity.told(last[1].value)} at {last[0].values[0]}",
        dots=tuple(
            Dot(
                *at,
                quantity.basis(point),
                f"{report.name} {point.values[0]}: {quantity.told(value.value)}, {quantity.basis(point)}",
                point.now,
            )
            for at, (point, value) in zip(places, known, strict=True)
        ),
        solid=" ".join(f"M{one[0]},{one[1]} L{other[0]},{other[1]}" for one, other in pairwise(places)),
        dashed="",
        band=f"M{' L'.join(highs)} L{' L'.join(reversed(lows))} Z",
        outside=(),
        x_ticks=_x_ticks([point.values[0] for point, _ in known], x),
        y_ticks=tuple(
            Tick(y(value / quantity.factor), tick_label(value, y_values[-1])) for value in y_values
        ),
        now_x=None if now is None else x(now),
        limit=None,
        x_title=report.name,
    )


def _x_ticks(values: Sequence[float], x: Callable[[float], float]) -> tuple[Tick, ...]:
    ticks: list[Tick] = []
    for value in (values[-1], *values):
        at = x(value)
        if all(abs(at - tick.at) >= _LEAST_APART for tick in ticks):
            ticks.append(Tick(at, f"{value:g}"))
    return tuple(ticks)
