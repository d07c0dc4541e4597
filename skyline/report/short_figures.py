"""Figures of three digits in a fitting unit, for tables and sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, log10

from skyline.interval import Interval

Scale = Sequence[tuple[str, float]]
"""Units with their sizes, the largest first."""

TIMES: Scale = (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3))
"""Sizes in seconds."""
ENERGIES: Scale = (("MWh", 1e3), ("kWh", 1.0), ("Wh", 1e-3), ("J", 1 / 3.6e6))
"""Sizes in kilowatt hours."""
MASSES: Scale = (("t", 1e6), ("kg", 1e3), ("g", 1.0), ("mg", 1e-3))
"""Sizes in grams."""


def fitting_unit(values: Iterable[float], scale: Scale) -> tuple[str, float]:
    """The unit in which the median value has one to three digits, and the factor from the values to it."""
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2] if ordered else 0.0
    name, size = next((one for one in scale if middle >= one[1]), scale[-1])
    return name, 1.0 / size


def short_range(interval: Interval) -> str:
    """``12.3 (11.9–12.8)``; only the value if it is exact."""
    if interval.half_width <= 0:
        return short(interval.value)
    return f"{short(interval.value)} ({short(interval.low)}–{short(interval.high)})"


def short(value: float) -> str:
    """A number with three significant digits, two if it is small; no decimals from a hundred on."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    if value >= 0.095 or value <= 0:
        return f"{value:.2f}"
    return f"{value:.{1 - floor(log10(value))}f}"
