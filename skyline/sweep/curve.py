"""Finds steps and the knee in times over the values of a setting, and values faster than smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass

_LEAST_STEP = 0.05
"""The difference between fresh processes of one script; a smaller deviation from the trend is no step."""
_LEAST_FASTER = 0.02
"""The least share of the time by which a larger value must be faster to be named."""
_NEIGHBOURS = 3
_LEAST_FOR_STEPS = 4
_LEAST_FOR_KNEE = 6
_LEAST_PER_SIDE = 3
_LEAST_BEND = 0.5
"""The least change of the growth exponent: the factor of the time per doubling becomes 1.41 times as large."""
_BEND_EXPLAINS = 0.6
"""The least share of the deviation from a single power that the bend must remove."""
_STRAIGHT = 0.02
"""The root-mean-square deviation, in logarithms, below which a single power describes the curve."""


@dataclass(frozen=True, slots=True)
class Step:
    """Two neighbouring values, by their indices, between which the time changes by more than the trend.

    ``change`` and ``trend`` are relative: 0.4 is 40 % more.
    """

    before: int
    after: int
    change: float
    trend: float

    @property
    def beyond_trend(self) -> float:
        """The relative change that the trend does not explain."""
        return (1 + self.change) / (1 + self.trend) - 1


@dataclass(frozen=True, slots=True)
class Knee:
    """The index of the value at which the growth changes, and the factors of the time per doubling."""

    at: int
    below: float
    above: float


@dataclass(frozen=True, slots=True)
class Faster:
    """A value, by its index, that takes less time than each of the smaller values from ``first`` on.

    ``gain`` is the share of the time that it saves, compared with the slowest of them.
    """

    at: int
    first: int
    gain: float


def steps(values: Sequence[float], times: Sequence[Interval], *, measured: bool) -> tuple[Step, ...]:
    """The steps of a curve, in the order of the values; none if too few points show a trend.

    The trend is the steeper of the median powers of up to three pairs on either side, so that a knee is no
    step. A ``measured`` step also exceeds the ranges of both times. Predicted times of one curve have similar
    errors, so their ranges do not count.
    """
    if len(values) < _LEAST_FOR_STEPS or values[0] <= 0:
        return ()
    widths = [log(after / before) for before, after in pairwise(values)]
    rises = [log(after.value / before.value) for before, after in pairwise(times)]
    powers = [rise / width for rise, width in zip(rises, widths, strict=True)]
    found: list[Step] = []
    for index, (rise, width) in enumerate(zip(rises, widths, strict=True)):
        sides = (powers[max(0, index - _NEIGHBOURS) : index], powers[index + 1 : index + 1 + _NEIGHBOURS])
        around = [median(side) for side in sides if side]
        trend = width * (max(0.0, *around) if rise > 0 else min(0.0, *around))
        sure = not measured or _apart(times[index], times[index + 1], trend, up=rise > 0)
        if abs(rise) > abs(trend) and abs(rise - trend) >= log(1 + _LEAST_STEP) and sure:
            found.append(Step(index, index + 1, exp(rise) - 1, exp(trend) - 1))
    return tuple(found)


def knee(values: Sequence[float], times: Sequence[Interval], ran: Sequence[int] = ()) -> Knee | None:
    """The bend that explains a curve far better than a single power of the value; None if there is none.

    ``ran`` are the indices of measured times: there is no knee if a single power lies within their ranges.
    """
    if len(values) < _LEAST_FOR_KNEE or values[0] <= 0:
        return None
    if ran and _is_one_power([values[at] for at in ran], [times[at] for at in ran]):
        return None
    x, y = np.log(np.array(values, dtype=float)), np.log(np.array([time.value for time in times]))
    straight = np.stack([np.ones_like(x), x], axis=1)
    single = _departure(straight, y)[0]
    if sqrt(single / len(values)) < _STRAIGHT:
        return None
    best: tuple[float, int, float, float] | None = None
    for at in range(_LEAST_PER_SIDE - 1, len(values) - _LEAST_PER_SIDE + 1):
        bent = np.column_stack([straight, np.maximum(0.0, x - x[at])])
        departure, (_, power, bend) = _departure(bent, y)
        if best is None or departure < best[0]:
            best = departure, at, power, bend
    if best is None:
        return None
    departure, at, power, bend = best
    if departure > (1 - _BEND_EXPLAINS) * single or abs(bend) < _LEAST_BEND:
        return None
    return Knee(at, 2.0**power, 2.0 ** (power + bend))


def faster(values: Sequence[float], times: Sequence[Interval], *, measured: bool) -> tuple[Faster, ...]:
    """The values that are faster than the smaller ones right before them, largest gain first."""
    found: list[Faster] = []
    for at in range(1, len(values)):
        first = at
        while first > 0 and _is_faster(times[at], times[first - 1], measured=measured):
            first -= 1
        if first < at:
            slowest = max(time.value for time in times[first:at])
            found.append(Faster(at, first, 1 - times[at].value / slowest))
    # A value needs no mention if a still larger one is faster than it.
    kept = [one for one in found if not any(other.first <= one.at < other.at for other in found)]
    return tuple(sorted(kept, key=lambda one: -one.gain))


def _is_faster(time: Interval, other: Interval, *, measured: bool) -> bool:
    if measured and time.high >= other.low:
        return False
    return time.value <= (1 - _LEAST_FASTER) * other.value


def _is_one_power(values: Sequence[float], times: Sequence[Interval]) -> bool:
    """True if some power of the value, times a factor, lies within all ranges."""
    least, most = -inf, inf
    for (value, time), (larger, later) in combinations(zip(values, times, strict=True), 2):
        width = log(larger / value)
        # The low end of a range may be zero.
        if later.low > 0:
            least = max(least, log(later.low / time.high) / width)
        if time.low > 0:
            most = min(most, log(later.high / time.low) / width)
    return least <= most


def _apart(before: Interval, after: Interval, trend: float, *, up: bool) -> bool:
    """True if no two times within the ranges differ by only the trend."""
    if up:
        return after.low > before.high * exp(trend)
    return after.high < before.low * exp(trend)


def _departure(columns: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, tuple[float, ...]]:
    """The remaining sum of squares of a least-squares fit, and its coefficients."""
    coefficients = np.linalg.lstsq(columns, y, rcond=None)[0]
    rest = y - columns @ coefficients
    return float(rest @ rest), tuple(float(one) for one in coefficients)
