"""Line charts, most often over batch sizes, laid out in plain coordinates for an inline SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from skyline import units
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.timeline import MemoryPoint
from skyline.report.basis import point_basis
from skyline.report.place import place_of
from skyline.report.schema import CurvePointReport, ProfileReport


@dataclass(frozen=True, slots=True)
class Box:
    """The size of a chart and the margins around its plot."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int


LOGARITHMIC_FROM = 12
"""The ratio of the highest to the lowest value from which an axis is logarithmic."""
_LONG = 10_000
"""The value at which an axis uses the next unit: it has room for five digits."""
SIZES_APART = 34
"""The room for a number on the horizontal axis."""

BOX = Box(width=540, height=270, left=52, right=16, top=24, bottom=40)


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis with its label."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line with a label above it; ``anchor`` is the end of the label that is at the line."""

    at: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Dot:
    """One batch size; ``basis`` decides how it is drawn, ``label`` is read out and shown on hover."""

    x: float
    y: float
    basis: str
    label: str
    now: bool


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that the template draws: paths as SVG path data, the rest as coordinates."""

    title: str
    unit: str
    summary: str
    dots: tuple[Dot, ...]
    solid: str
    dashed: str
    band: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_title: str = "batch size"
    outside: tuple[tuple[float, float], ...] = ()
    """The start and width of the ranges beyond the measured values."""
    now_x: float | None = None
    limit: Tick | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """A value on the horizontal axis. The line to an ``extrapolated`` value is dashed; see also ``Dot``."""

    x: float
    value: Interval
    basis: str
    label: str
    now: bool = False
    extrapolated: bool = False


@dataclass(frozen=True, slots=True)
class UprightAxis:
    """The vertical axis from zero to ``top``; its numbers are values times ``factor``."""

    factor: float
    numbers: tuple[float, ...]
    top: float

    @classmethod
    def up_to(cls, highest: float, factor: float) -> UprightAxis:
        """The axis with round numbers and room for the value ``highest``."""
        numbers = nice_ticks(highest * factor)
        return cls(factor, tuple(numbers), max(numbers[-1], highest * factor))

    def at(self, value: float) -> float:
        """The height of a value in the chart."""
        room = BOX.height - BOX.top - BOX.bottom
        return round(BOX.height - BOX.bottom - value * self.factor / self.top * room, 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """The round numbers at their heights."""
        return tuple(
            Tick(self.at(one / self.factor), tick_label(one, self.numbers[-1])) for one in self.numbers
        )


def line_chart(
    title: str,
    unit: str,
    axis: UprightAxis,
    samples: Sequence[Sample],
    x_ticks: tuple[Tick, ...],
    *,
    summary: str,
    x_title: str = "batch size",
) -> Chart:
    """A chart of these samples: their values as dots and a line, their ranges as a band."""
    middles = [(one.x, axis.at(one.value.value)) for one in samples]
    highs = [f"{one.x},{axis.at(one.value.high)}" for one in samples]
    lows = [f"{one.x},{axis.at(one.value.low)}" for one in samples]
    solid: list[str] = []
    dashed: list[str] = []
    for ((x0, y0), one), ((x1, y1), other) in pairwise(zip(middles, samples, strict=True)):
        path = dashed if one.extrapolated or other.extrapolated else solid
        path.append(f"M{x0},{y0} L{x1},{y1}")
    return Chart(
        title=title,
        unit=unit,
        summary=summary,
        dots=tuple(Dot(*at, one.basis, one.label, one.now) for at, one in zip(middles, samples, strict=True)),
        solid=" ".join(solid),
        dashed=" ".join(dashed),
        band=f"M{' L'.join(highs)} L{' L'.join(reversed(lows))} Z",
        x_ticks=x_ticks,
        y_ticks=axis.ticks,
        x_title=x_title,
    )


def spaced(labels: Iterable[tuple[float, str]], apart: float) -> tuple[Tick, ...]:
    """The labels at their places, without labels that would be too close to an earlier one."""
    ticks: list[Tick] = []
    for at, label in labels:
        if all(abs(at - tick.at) >= apart for tick in ticks):
            ticks.append(Tick(at, label))
    return tuple(ticks)


@dataclass(frozen=True, slots=True)
class _Series:
    """One quantity over the curve, in the unit of its axis."""

    title: str
    scale: units.UnitScale
    of: Callable[[CurvePointReport], Interval]
    scale_of: Callable[[tuple[float]], units.UnitScale]
    """Gives the scale for a single value, so that a label does not round it to zero."""


def charts(report: ProfileReport) -> tuple[Chart, ...]:
    """Throughput and peak memory over the batch size; none if fewer than two sizes are known."""
    points = sorted(report.curve, key=lambda point: point.batch_size)
    if len(points) < 2:
        return ()
    rate = units.rate_scale(point.throughput.value for point in points)
    size = _byte_axis([point.peak_bytes.value for point in points])
    throughput = _Series("Throughput", rate, lambda point: point.throughput, units.rate_scale)
    memory = _Series("Peak memory", size, lambda point: point.peak_bytes, units.byte_scale)
    usable = report.memory.usable_bytes or report.memory.capacity_bytes
    return (
        _chart(throughput, points, report, None),
        _chart(memory, points, report, usable),
    )


def _chart(
    series: _Series, points: Sequence[CurvePointReport], report: ProfileReport, limit: float | None
) -> Chart:
    factor = series.scale.factor
    highest = max(series.of(point).high for point in points)
    # A capacity far above all values would flatten the curve, so the text names it instead.
    shown = limit if limit and limit * factor <= highest * factor * 1.6 else None
    axis = UprightAxis.up_to(max(highest, shown or 0.0), factor)
    x = x_scale(points[0].batch_size, points[-1].batch_size)
    now, predicted = report.batch_size.value, report.mode == "predicted"
    samples = [
        Sample(
            x(point.batch_size),
            series.of(point),
            point_basis(point, predicted=predicted),
            _label(series, point, predicted=predicted),
            point.batch_size == now,
            point.extrapolated,
        )
        for point in points
    ]
    # The batch sizes themselves are the labels, measured ones first.
    sizes = sorted(points, key=lambda point: (not point.measured, point.batch_size))
    x_ticks = spaced(((x(point.batch_size), str(point.batch_size)) for point in sizes), SIZES_APART)
    chart = line_chart(
        series.title, series.scale.unit, axis, samples, x_ticks, summary=_summary(series, points)
    )
    return replace(
        chart,
        outside=_outside(x, [point.batch_size for point in points if point.measured], points),
        now_x=x(now) if now is not None and points[0].batch_size <= now <= points[-1].batch_size else None,
        limit=Tick(axis.at(shown), _limit(report, shown)) if shown else None,
    )


def _limit(report: ProfileReport, limit: float) -> str:
    """The limit in words. Tensors cannot use all of a GPU's memory: its other contents are excluded."""
    whole = limit == report.memory.capacity_bytes
    return f"{'device memory' if whole else 'memory for tensors'} {units.format_bytes(limit)}"


def nice_ticks(top: float) -> list[float]:
    """About five numbers from zero up to ``top`` or just beyond, in steps of 1, 2 or 5 times a power of ten."""
    if top <= 0 or not math.isfinite(top):
        return [0.0, 1.0]
    rough = top / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * multiple for multiple in (1, 2, 5, 10) if power * multiple >= rough * 0.999)
    return [round(step * index, 12) for index in range(math.ceil(top / step - 1e-9) + 1)]


def tick_label(value: float, top: float) -> str:
    """The label of a number on an axis up to ``top``, in thousands if its digits would not fit."""
    return f"{value / 1000:g}k" if value and top >= 100_000 else f"{value:g}"


def _byte_axis(values: Sequence[float]) -> units.UnitScale:
    """The unit of the smallest value, so that no value becomes zero; of the largest if numbers get too long."""
    smallest = units.byte_scale([min(values)])
    return smallest if max(values) * smallest.factor < _LONG else units.byte_scale(values)


def x_scale(low: float, high: float, *, may_bend: bool = True) -> Callable[[float], float]:
    """The horizontal scale: logarithmic if ``may_bend`` and the values span many doublings, else linear."""
    logarithmic = may_bend and low > 0 and high / low >= LOGARITHMIC_FROM

    def position(value: float) -> float:
        proportion = (value - low) / ((high - low) or 1.0)
        share = math.log(value / low) / math.log(high / low) if logarithmic else proportion
        return round(BOX.left + 8 + share * (BOX.width - BOX.left - BOX.right - 16), 1)

    return position


def _outside(
    x: Callable[[float], float], measured: list[int], points: Sequence[CurvePointReport]
) -> tuple[tuple[float, float], ...]:
    left, right = BOX.left, BOX.width - BOX.right
    if not measured:
        return ((left, right - left),)
    stretches: list[tuple[float, float]] = []
    if points[0].batch_size < measured[0]:
        stretches.append((left, round(x(measured[0]) - left, 1)))
    if points[-1].batch_size > measured[-1]:
        start = x(measured[-1])
        stretches.append((start, round(right - start, 1)))
    return tuple(stretches)


def _label(series: _Series, point: CurvePointReport, *, predicted: bool) -> str:
    value = series.of(point)
    scale = series.scale_of((value.value,))
    return f"batch {point.batch_size}: {scale.interval(value)}, {point_basis(point, predicted=predicted)}"


def _summary(series: _Series, points: Sequence[CurvePointReport]) -> str:
    first, last = points[0], points[-1]
    start, end = series.of(first).value, series.of(last).value
    return (
        f"{series.title} from {series.scale_of((start,)).text(start)} at batch size {first.batch_size} "
        f"to {series.scale_of((end,)).text(end)} at {last.batch_size}"
    )


_OWNERS = ("parameters", "optimizer", "gradients", "other", "activations")
"""From the bottom up: first the owners that persist from iteration to iteration."""


@dataclass(frozen=True, slots=True)
class MemoryChart:
    """One area per owner as SVG path data, stacked on top of each other."""

    unit: str
    time_unit: str
    summary: str
    areas: tuple[tuple[str, str], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    at_peak: tuple[tuple[str, str, str], ...]
    """Place, source and size of the lines that had allocated most of the peak."""


def memory_chart(report: ProfileReport, base: Path) -> MemoryChart | None:
    """The chart. None if the level is known at fewer than two moments."""
    points = report.memory.timeline
    if len(points) < 2 or not any(point.live_bytes for point in points):
        return None
    size = units.byte_scale(point.live_bytes for point in points)
    time = units.time_scale((report.iteration_ms.value,))
    axis = UprightAxis.up_to(max(point.live_bytes for point in points), size.factor)
    end_ms = max(report.iteration_ms.value, points[-1].time_ms)
    x_values = [value for value in nice_ticks(end_ms * time.factor) if value <= end_ms * time.factor]

    def x(time_ms: float) -> float:
        return round(BOX.left + min(1.0, max(0.0, time_ms / end_ms)) * (BOX.width - BOX.left - BOX.right), 1)

    peak = max(points, key=lambda point: point.live_bytes)
    return MemoryChart(
        unit=size.unit,
        time_unit=time.unit,
        summary=f"Live memory over one iteration: at most {units.format_bytes(peak.live_bytes)}, "
        f"{time.text(peak.time_ms)} into it",
        areas=tuple(_areas(points, end_ms, x, axis.at)),
        x_ticks=tuple(Tick(x(value / time.factor), f"{value:g}") for value in x_values),
        y_ticks=axis.ticks,
        at_peak=tuple(
            (
                place_of(line, base) if line.file else "outside your code",
                line.source,
                units.format_bytes(line.size_bytes),
            )
            for line in report.memory.at_peak[:5]
        ),
    )


def _areas(
    points: tuple[MemoryPoint, ...], end_ms: float, x: Callable[[float], float], y: Callable[[float], float]
) -> list[tuple[str, str]]:
    """The stacked areas as steps: a level holds until the next point."""
    below = [0] * len(points)
    areas: list[tuple[str, str]] = []
    for owner in _OWNERS:
        above = [low + int(getattr(point, owner)) for low, point in zip(below, points, strict=True)]
        if above != below:
            top = _steps(points, above, end_ms, x, y)
            bottom = reversed(_steps(points, below, end_ms, x, y))
            areas.append((owner, f"M{' L'.join(top)} L{' L'.join(bottom)} Z"))
        below = above
    return areas


def _steps(
    points: tuple[MemoryPoint, ...],
    levels: list[int],
    end_ms: float,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> list[str]:
    ends = [*(point.time_ms for point in points[1:]), end_ms]
    return [
        f"{x(moment)},{y(level)}"
        for point, level, end in zip(points, levels, ends, strict=True)
        for moment in (point.time_ms, end)
    ]
