"""Formatted numbers: milliseconds, bytes, rates and shares, always with their unit.

Single numbers have three to four significant digits. Numbers in one column share a unit and a number of decimals
(``time_scale``), so that they are easy to compare and add.
"""

from __future__ import annotations

from collections.abc import Iterable

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass

_FACTOR_FROM = 9.995
"""Changes of this factor and more are printed as a factor: ``+7094 %`` says less than ``72x``."""
_BYTE_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class UnitScale:
    """A unit and a precision shared by several numbers; ``factor`` turns the base unit into this one."""

    unit: str
    factor: float
    decimals: int

    def number(self, value: float) -> str:
        """The bare number in this unit, without the unit."""
        text = f"{value * self.factor:.{self.decimals}f}"
        return text.removeprefix("-") if not text.strip("-0.") else text

    def signed(self, value: float) -> str:
        """The bare number with its sign; no sign for a value that rounds to zero."""
        text = self.number(value)
        return f"+{text}" if not text.startswith("-") and text.strip("0.") else text

    def text(self, value: float) -> str:
        """The number and its unit."""
        return f"{self.number(value)} {self.unit}"

    def half_width(self, interval: Interval) -> str:
        """The bare number after the plus-minus sign; empty if it is finer than the printed value."""
        text = f"{interval.half_width * self.factor:.{self.decimals}f}"
        return text if interval.half_width > 0 and text.strip("0.") else ""

    def spread(self, interval: Interval) -> str:
        """`` ±2.1``, or the range `` (61–340)`` for a wide and asymmetric one; empty without a significant spread."""
        half = self.half_width(interval)
        if half and _lopsided(interval):
            return f" ({self.number(interval.low)}–{self.number(interval.high)})"
        return half and f" ±{half}"

    def interval(self, interval: Interval) -> str:
        """``182.4 ms ±2.1``; without the spread if there is none."""
        return f"{self.text(interval.value)}{self.spread(interval)}"

    def number_with_spread(self, interval: Interval) -> str:
        """``182.4 ±2.1``, for columns whose title names the unit."""
        return f"{self.number(interval.value)}{self.spread(interval)}"

    def change_with_spread(self, change: Interval) -> str:
        """``-5.1 ±1.0``: a change, signed."""
        signed, half = self.signed(change.value), self.half_width(change)
        if half and _lopsided(change):
            return f"{signed} ({self.signed(change.low)} to {self.signed(change.high)})"
        return signed + (half and f" ±{half}")


def time_scale(values_ms: Iterable[float]) -> UnitScale:
    """The unit and decimals for the largest of several times in ms."""
    largest = max((abs(value) for value in values_ms), default=0.0)
    if largest >= 10_000:
        return UnitScale("s", 1e-3, _decimals(largest * 1e-3))
    if 0 < largest < 0.1:
        return UnitScale("µs", 1e3, _decimals(largest * 1e3))
    return UnitScale("ms", 1.0, _decimals(largest))


def byte_scale(values: Iterable[float]) -> UnitScale:
    """The decimal unit (GB is 10^9) and decimals for the largest of several byte counts."""
    largest = max((abs(value) for value in values), default=0.0)
    for unit, size in _BYTE_UNITS:
        # 999.96 MB would print as 1000 MB: use the next unit if rounding reaches it.
        if largest >= size * 0.9995:
            return UnitScale(unit, 1 / size, 0 if largest >= 100 * size else 1)
    return UnitScale("B", 1.0, 0)


def rate_scale(values: Iterable[float]) -> UnitScale:
    """Decimals for the largest of several rates in samples per second."""
    largest = max((abs(value) for value in values), default=0.0)
    return UnitScale("samples/s", 1.0, 0 if largest >= 100 else _decimals(largest))


def format_ms(value_ms: float) -> str:
    """``182.4 ms``; seconds from 10 s on, µs below 0.1 ms."""
    return time_scale((value_ms,)).text(value_ms)


def format_ms_interval(interval_ms: Interval) -> str:
    """``182.4 ms ±2.1``."""
    return time_scale((interval_ms.value,)).interval(interval_ms)


def format_ms_delta(value_ms: float) -> str:
    """``-5.1 ms``: a signed change."""
    scale = time_scale((value_ms,))
    # A change is compared with the iteration: one decimal of a ms is enough unless the change is below one.
    if scale.unit == "ms" and scale.decimals > 1 and abs(value_ms) >= 1:
        scale = UnitScale(scale.unit, scale.factor, 1)
    return f"{scale.signed(value_ms)} {scale.unit}"


def format_bytes(value: float) -> str:
    """``1.9 GB``, decimal units."""
    return byte_scale((value,)).text(value)


def format_bytes_delta(value: float) -> str:
    """``-1.1 GB``: a signed change; ``0 B`` is spelled ``same``."""
    scale = byte_scale((value,))
    return "same" if value == 0 else f"{scale.signed(value)} {scale.unit}"


def format_bytes_of(value: float, capacity: float | None) -> str:
    """``1.9 of 24.0 GB``; with both units if they differ."""
    if not capacity:
        return format_bytes(value)
    ours, theirs = byte_scale((value,)), byte_scale((capacity,))
    left = ours.number(value) if ours.unit == theirs.unit else ours.text(value)
    return f"{left} of {theirs.text(capacity)}"


def format_throughput(samples_per_second: float) -> str:
    """``175 samples/s``."""
    return rate_scale((samples_per_second,)).text(samples_per_second)


def format_throughput_interval(interval: Interval) -> str:
    """``175 samples/s ±2``."""
    return rate_scale((interval.value,)).interval(interval)


def format_share(share: float) -> str:
    """``22 %``; one decimal below ten percent, and ``<0.1 %`` for small positive shares."""
    percent = share * 100
    if 0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def format_share_delta(share: float) -> str:
    """``-2.8 %``: a signed relative change; from ten times on as a factor, ``71x``."""
    if share >= _FACTOR_FROM - 1:
        return format_ratio(1 + share)
    text = f"{share * 100:+.{0 if abs(share) >= 0.9995 else 1}f}"
    return f"{text if text.strip('+-0.') else '0.0'} %"


def format_ratio(ratio: float) -> str:
    """``1.10x``: a ratio; two decimals near one."""
    return f"{ratio:.2f}x" if ratio < _FACTOR_FROM else f"{ratio:.0f}x"


def format_ratio_range(ratio: Interval) -> str:
    """``1.30x (1.21–1.40x)``; the number alone if both ends look equal."""
    low, high, value = format_ratio(ratio.low), format_ratio(ratio.high), format_ratio(ratio.value)
    return value if low == value == high else f"{value} ({low.removesuffix('x')}–{high})"


def format_count(count: float) -> str:
    """``3`` or ``2.5``: calls per iteration."""
    return f"{count:.0f}" if count >= 100 or count == int(count) else f"{count:.1f}"


def _decimals(largest: float) -> int:
    if largest >= 999.95:
        return 0
    if largest >= 9.995:
        return 1
    return 2 if largest > 0 else 0


def _lopsided(interval: Interval) -> bool:
    """True if plus-minus would be misleading: a wide interval whose value is far from its middle."""
    below, above = interval.value - interval.low, interval.high - interval.value
    wide = interval.half_width > 0.2 * abs(interval.value)
    return wide and max(below, above) > 1.5 * min(below, above)


def how_often(count: float) -> str:
    """``once``, ``3 times``, ``2.5 times``."""
    return "once" if count == 1 else f"{count:.3g} times"


def plural(count: int, noun: str) -> str:
    """``1 worker``, ``3 workers``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
