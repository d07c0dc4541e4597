"""The speedup of a change in words, and doubts that follow from its range."""

from __future__ import annotations

from typing import Literal

from skyline import units
from skyline.interval import Interval

Direction = Literal["better", "worse", ""]

_NOTHING = 5e-4
"""A speed-up that is printed as 1.00x is none, however sure."""
_FACTOR_FROM = 10.0
_NOISE = 0.5
"""A time that scatters by this share of itself says nothing as the denominator of a large factor."""


def direction(speedup: Interval | None) -> Direction:
    """Empty where the range holds no change at all, too: such a figure is shown as neither gain nor loss."""
    if speedup is None or abs(speedup.value - 1) < _NOTHING:
        return ""
    if speedup.low > 1:
        return "better"
    return "worse" if speedup.high < 1 else ""


def speedup_words(speedup: float, speedup_range: Interval | None) -> str:
    """``1.30x (1.21–1.40x)``."""
    return units.format_ratio(speedup) if speedup_range is None else units.format_ratio_range(speedup_range)


def speedup_cell(speedup: float, speedup_range: Interval | None) -> str:
    """``1.30x`` of a table; ``~`` before a figure whose range holds no change."""
    words = units.format_ratio(speedup)
    unsure = speedup_range is not None and speedup_range.low <= 1 <= speedup_range.high
    return f"~{words}" if unsure and speedup_range.low < speedup_range.high else words


def range_cell(speedup_range: Interval | None) -> str:
    """``1.21–1.40x`` of a table; empty where the ends look equal."""
    if speedup_range is None:
        return ""
    low, high = units.format_ratio(speedup_range.low), units.format_ratio(speedup_range.high)
    return "" if low == high else f"{low.removesuffix('x')}–{high}"


def baseline_doubt(speedup: float, baseline_ms: Interval) -> str:
    """Why a large factor says little: ``from a baseline within noise, 0.20 ms ±0.15``; empty where it does not."""
    if speedup < _FACTOR_FROM or baseline_ms.half_width < _NOISE * baseline_ms.value:
        return ""
    return f"from a baseline within noise, {units.format_ms_interval(baseline_ms)}"


def one_off_words(one_off_s: Interval | None, break_even_iterations: int | None) -> str:
    """``38.0 s ±20.0, paid back after 2,300 iterations``; empty where nothing has to be paid once."""
    if one_off_s is None:
        return ""
    words = units.format_ms_interval(one_off_s.scaled(1e3))
    if break_even_iterations is None:
        return f"{words}, never paid back"
    return f"{words}, paid back after {break_even_iterations:,} iterations"
