"""The page of a sweep: time, memory and utilisation over the values of the first setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from skyline import units
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.report.document import Document
from skyline.report.html.chart import (
    LOGARITHMIC_FROM,
    SIZES_APART,
    Chart,
    Sample,
    UprightAxis,
    line_chart,
    spaced,
    x_scale,
)
from skyline.report.html.page import PageNames, as_script, filled
from skyline.report.sweep import SweepPointReport, SweepReport, SweepSeriesReport, script_name


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
    """The page as one string of HTML, with the report in it as JSON. The charts show the first series."""
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
    axis = UprightAxis.up_to(max(value.high for _, value in known), quantity.factor)
    low, high = known[0][0].values[0], known[-1][0].values[0]
    x = x_scale(low, high, may_bend=len(known) <= LOGARITHMIC_FROM)
    samples = [
        Sample(
            x(point.values[0]),
            value,
            quantity.basis(point),
            f"{report.name} {point.values[0]}: {quantity.told(value.value)}, {quantity.basis(point)}",
            point.now,
        )
        for point, value in known
    ]
    labels = ((x(value), f"{value:g}") for value in (high, *(point.values[0] for point, _ in known)))
    chart = line_chart(
        quantity.title,
        quantity.unit,
        axis,
        samples,
        spaced(labels, SIZES_APART),
        summary=f"{quantity.title} from {quantity.told(known[0][1].value)} at {report.name} {low} to "
        f"{quantity.told(known[-1][1].value)} at {high}",
        x_title=report.name,
    )
    return replace(chart, now_x=next((one.x for one in samples if one.now), None))
