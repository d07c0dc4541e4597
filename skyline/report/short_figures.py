"""Figures of three digits in the unit that suits them, for tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, log10

from skyline.interval import Interval

Scale = Sequence[tuple[str, float]]
"""Units with their sizes, the largest first."""

TIMES: Scale = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
"""Of a second."""
ENERGIES: Scale = (("MWh", 1e3), ("kWh", 1.0), ("Wh", 1e-3), ("J", 1 / 3.6e6))
"""Of a kilowatt hour."""
MASSES: Scale = (("t", 1e6), ("kg", 1e3), ("g", 1.0), ("mg", 1e-3))
"""Of a gram."""


def fitting_unit(values: Iterable[float], scale: Scale) -> tuple[str, float]:
    """The unit in which the median value has one to three digits, and the factor into it."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2] if ordered else 0.0
    name, size = next((one for one in scale if middle >= one[1]), scale[-1])
    return name, 1.0 / size


def short_range(interval: Interval) -> str:
    """``12.3 (11.9–12.8)``; the value alone where it is exact."""
    if interval.half_width <= 0:
        return short(interval.value)
    return f"{short(interval.value)} ({short(interval.low)}–{short(interval.high)})"


def short(value: float) -> str:
    """Three significant digits, two of a small number; none after the point from a hundred on."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    if value >= 0.095 or value <= 0:
        return f"{value:.2f}"
    return f"{value:.{1 - floor(log10(value))}f}"
