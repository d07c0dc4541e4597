"""Live memory over one iteration, its owners stacked, laid out in plain coordinates for an inline SVG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skyline import units
from skyline.memory.timeline import MemoryPoint
from skyline.report.html.chart import BOX, Tick, nice_ticks
from skyline.report.place import place
from skyline.report.schema import ProfileReport

_OWNERS = ("parameters", "optimizer", "gradients", "other", "activations")
"""From the bottom up: what stays from iteration to iteration first."""


@dataclass(frozen=True, slots=True)
class MemoryChart:
    """One area per owner as SVG path data, drawn one upon the other."""

    unit: str
    time_unit: str
    summary: str
    areas: tuple[tuple[str, str], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    at_peak: tuple[tuple[str, str, str], ...]
    """Place, source and size of the lines that had taken most of the peak."""


def memory_chart(report: ProfileReport, base: Path) -> MemoryChart | None:
    """The chart; None where the level is known at fewer than two moments."""
    points = report.memory.timeline
    if len(points) < 2 or not any(point.live_bytes for point in points):
        return None
    size = units.byte_scale(point.live_bytes for point in points)
    time = units.time_scale((report.iteration_ms.value,))
    y_values = nice_ticks(max(point.live_bytes for point in points) * size.factor)
    end_ms = max(report.iteration_ms.value, points[-1].time_ms)
    x_values = [value for value in nice_ticks(end_ms * time.factor) if value <= end_ms * time.factor]

    def x(time_ms: float) -> float:
        return round(BOX.left + min(1.0, max(0.0, time_ms / end_ms)) * (BOX.width - BOX.left - BOX.right), 1)

    def y(level: float) -> float:
        room = BOX.height - BOX.top - BOX.bottom
        return round(BOX.height - BOX.bottom - level * size.factor / (y_values[-1] or 1.0) * room, 1)

    peak = max(points, key=lambda point: point.live_bytes)
    return MemoryChart(
        unit=size.unit,
        time_unit=time.unit,
        summary=f"Live memory over one iteration: at most {units.format_bytes(peak.live_bytes)}, "
        f"{time.text(peak.time_ms)} into it",
        areas=tuple(_areas(points, end_ms, x, y)),
        x_ticks=tuple(Tick(x(value / time.factor), f"{value:g}") for value in x_values),
        y_ticks=tuple(Tick(y(value / size.factor), f"{value:g}") for value in y_values),
        at_peak=tuple(
            (
                place(line.file, line.line, base) if line.file else "outside your code",
                line.source,
                units.format_bytes(line.size_bytes),
            )
            for line in report.memory.at_peak[:5]
        ),
    )


def _areas(
    points: tuple[MemoryPoint, ...], end_ms: float, x: Callable[[float], float], y: Callable[[float], float]
) -> list[tuple[str, str]]:
    """Steps: a level holds until the next point."""
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
