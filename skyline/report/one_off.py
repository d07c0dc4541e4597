"""The one-off cost of a change, in words."""

from __future__ import annotations

from skyline import units
from skyline.interval import Interval


def one_off_words(one_off_s: Interval | None, break_even_iterations: int | None) -> str:
    """``38.0 s ±20.0, paid back after 2,300 iterations``; empty where nothing has to be paid once."""
    if one_off_s is None:
        return ""
    words = units.format_ms_interval(one_off_s.scaled(1e3))
    if break_even_iterations is None:
        return f"{words}, never paid back"
    return f"{words}, paid back after {break_even_iterations:,} iterations"
