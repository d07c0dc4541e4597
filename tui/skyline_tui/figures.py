"""Formatting of numbers and names for the screen: changes, wrapped rows, marks that need no colour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from textual.content import Content

from skyline import units
from skyline.interval import Interval
from skyline.report.basis import Direction
from skyline.report.schema import BaselineReport, EstimateReport

ScaleOf = Callable[[Sequence[float]], units.UnitScale]

ARROW = "→"
MUTED = "$foreground 60%"
BAR = "▇"
DIRECTION_STYLES: dict[Direction, str] = {"better": "$text-success", "worse": "$text-error", "": ""}
"""Green and red only if the whole range of a change has one sign."""


def throughput_change(now: Interval | None, then: Interval | None, width: int = 99) -> str:
    """``175 → 231 samples/s ±9``; a single number without a question. Shorter forms for less width."""
    return _change(now, then, units.rate_scale, width)


def time_change(now: Interval | None, then: Interval | None) -> str:
    """``182.4 → 301.5 ms ±9.0``."""
    return _change(now, then, units.time_scale)


def memory_change(now: Interval | None, then: Interval | None, width: int = 99) -> str:
    """``1.9 → 3.4 GB ±0.1``."""
    return _change(now, then, units.byte_scale, width)


def _change(now: Interval | None, then: Interval | None, scale_of: ScaleOf, width: int = 99) -> str:
    known = [interval for interval in (now, then) if interval is not None]
    if not known:
        return "unknown"
    scale = scale_of([interval.value for interval in known])
    last = known[-1]
    before = ""
    if len(known) == 2 and now is not None:
        same = scale.number(now.value) == scale.number(last.value)
        before = "as now: " if same else f"{scale.number(now.value)} {ARROW} "
    full = before + scale.interval(last)
    return fitting(width, full, full.replace(" samples/s", "/s"), before + scale.text(last.value))


def fitting(width: int, *texts: str) -> str:
    """The first text that fits; the last one if none does."""
    return next((text for text in texts if len(text) <= width), texts[-1])


def saved_time(estimate: EstimateReport, scale: units.UnitScale | None = None, width: int = 99) -> str:
    """``-5.1 ±1.0 ms``: the change of the iteration time by a what-if; in a column with a shared scale."""
    scale = scale or time_scale_of((estimate,))
    change = estimate.change_ms
    half = scale.half_width(change)
    short = f"{scale.signed(change.value)}{half and f' ±{half}'} {scale.unit}"
    return fitting(width, f"{scale.change_with_spread(change)} {scale.unit}", short)


def time_scale_of(estimates: Iterable[EstimateReport]) -> units.UnitScale:
    """Unit and decimals for several changes in one column."""
    return units.time_scale(estimate.change_ms.value for estimate in estimates)


def saved_memory(estimate: EstimateReport, baseline: BaselineReport) -> str:
    """``-1.1 GB``; empty if the peak changes by less than a hundredth."""
    change = estimate.peak.value - baseline.peak.value
    return units.format_bytes_delta(change) if abs(change) >= baseline.peak.value / 100 else ""


def tail(text: str, width: int) -> str:
    """``text`` cut to at most ``width`` characters at its end: the beginning identifies code."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def flow(parts: Sequence[Content], width: int, gap: int = 3, separator: str = "") -> Content:
    """Parts side by side while they fit, then whole parts on the next line: numbers are never cut.

    ``gap`` blanks, or the separator, are between them.
    """
    between = separator or " " * gap
    lines: list[list[Content]] = [[]]
    used = 0
    for part in parts:
        needed = part.cell_length + (len(between) if lines[-1] else 0)
        if lines[-1] and used + needed > width:
            lines.append([])
            used, needed = 0, part.cell_length
        lines[-1].append(part)
        used += needed
    return Content("\n").join(Content.styled(between, MUTED).join(line) for line in lines)


def spread(left: Content, right: Content, width: int) -> Content:
    """One part at each end of a line; the right one moves below if both do not fit."""
    room = width - left.cell_length - right.cell_length
    if room < 1:
        return Content("\n").join([left, right])
    return left + Content(" " * room) + right
