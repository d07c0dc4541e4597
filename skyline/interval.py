"""A number with its range of uncertainty, and the scatter of repeated measurements of one quantity.

No normal distribution is assumed, except for a series of fewer than six samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import comb, exp, hypot, log, sqrt
from typing import Literal

from skyline.lazy_dataclass import dataclass

End = Literal["value", "low", "high"]
"""A number of an interval, by its name."""
ENDS: tuple[End, ...] = ("value", "low", "high")
END_OF_GAIN: dict[End, End] = {"value": "value", "low": "high", "high": "low"}
"""The end of a gain that gives each end of the time that is left."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the low and high ends of its uncertainty, all in the same unit."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Interval:
        """A value without uncertainty, such as a traced byte count."""
        return cls(value, value, value)

    @property
    def ends(self) -> tuple[float, float, float]:
        """The value, the low end and the high end, in the order of ``ENDS``."""
        return self.value, self.low, self.high

    @property
    def half_width(self) -> float:
        """Half the distance between low and high: the number after the plus-minus sign."""
        return (self.high - self.low) / 2

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit or size; a factor below zero is not meaningful."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def plus(self, other: Interval) -> Interval:
        """The sum of two amounts whose low ends, and high ends, occur together."""
        return Interval(self.value + other.value, self.low + other.low, self.high + other.high)

    def inverse(self, numerator: float) -> Interval:
        """``numerator / self``, for example to convert milliseconds per iteration to samples per second.

        A low end at zero counts as a thousandth of the value, so that the result is finite.
        """
        low = max(self.low, self.value / 1000)
        return Interval(numerator / self.value, numerator / self.high, numerator / low)


_TAIL = 0.025
"""Probability outside the interval on each side: 95 % confidence."""
_NORMAL = 1.96
"""The corresponding half width of the normal distribution, in standard deviations."""
_RESAMPLES = 4000
_FEW = {2: 6.36, 3: 1.34, 4: 0.74, 5: 0.56}
"""Half of the 95 % interval of the median of this many normal samples, relative to their range (after Lord
1947, who gives it for the mean; from 400,000 draws)."""
_FEW_AND_BEFORE = {2: 1.299, 3: 0.930, 4: 0.628, 5: 0.535}
"""The same relative to the root of their squared deviations plus ``_BEFORE``: Student's t with one degree of
freedom more than samples, times the error of a median over the error of a mean."""
_BEFORE = 2 * 0.05**2
"""Squared deviations of two further iterations that differ by 5 %, as on an idle machine. With these, two
samples that differ by a factor of three do not give a range over a factor of hundreds."""
_LATER = Interval(1.0, 0.7, 1.1)
"""Later iterations relative to the first ones, from 68 profiles of the development scripts of
``benchmarks/first_figures.py`` with other programs at work. First iterations are usually slower."""


def median(samples: Sequence[float]) -> float:
    """The middle sample; the mean of the two middle ones for an even count.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("the median of no samples")
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def interval_of(samples: Sequence[float]) -> Interval:
    """The median with a 95 % interval from order statistics.

    The number of samples below the true median is binomial with p = 1/2, for any distribution. Fewer than six samples
    cannot give 95 %; the interval is then their whole range.
    """
    ordered = sorted(samples)
    outside = _samples_outside(len(ordered))
    return Interval(median(ordered), ordered[outside], ordered[-1 - outside])


def interval_of_series(samples: Sequence[float]) -> Interval:
    """The same for consecutive samples in order of measurement: samples that drift count as fewer.

    The whole range of fewer than six samples misses the median too often. Their logarithms are assumed to be
    normal.
    """
    count = len(samples)
    if count in _FEW and min(samples) > 0:
        logs = [log(one) for one in samples]
        middle = sum(logs) / count
        apart = _BEFORE + sum((one - middle) ** 2 for one in logs)
        spread = min(_FEW[count] * (max(logs) - min(logs)), _FEW_AND_BEFORE[count] * sqrt(apart))
        value, factor = median(samples), exp(spread)
        return Interval(value, value / factor, value * factor)
    independent = _independent(samples)
    if independent == count:
        return interval_of(samples)
    ordered = sorted(samples)
    # The normal approximation of the binomial distribution.
    outside = max(0, int(count * (0.5 - _NORMAL / (2 * sqrt(independent)))))
    return Interval(median(ordered), ordered[outside], ordered[-1 - outside])


def interval_of_first(samples: Sequence[float]) -> Interval:
    """The median of the first samples, with the range of the median of many later ones in nine of ten series.

    The scatter of the first samples does not show how later ones differ from them: caches and the allocator
    still settle, and the load of the machine changes. Both uncertainties are independent factors.
    """
    known = interval_of_series(samples)
    if known.low <= 0:
        return known
    below, above = (
        (log(known.value / known.low), log(1 / _LATER.low)),
        (log(known.high / known.value), log(_LATER.high)),
    )
    return Interval(known.value, known.value / exp(hypot(*below)), known.value * exp(hypot(*above)))


def _independent(samples: Sequence[float]) -> float:
    """The number of independent samples with as much information on the median (Bayley and Hammersley 1946).

    It follows from the rank correlation of neighbours, if this exceeds the correlation of independent
    samples.
    """
    count = len(samples)
    ranks = {place: rank for rank, place in enumerate(sorted(range(count), key=samples.__getitem__))}
    centred = [ranks[place] - (count - 1) / 2 for place in range(count)]
    total = sum(one * one for one in centred)
    together = sum(one * after for one, after in pairwise(centred)) / total if total else 0.0
    if together <= _NORMAL / sqrt(max(1, count)):
        return float(count)
    return count * (1 - together) / (1 + together)


def bootstrap(samples: Sequence[float]) -> Interval:
    """The median with the 95 % percentile interval of its bootstrap distribution (Efron 1979).

    Rounds are drawn with replacement. The draws are seeded: the same rounds give the same interval.
    """
    import random  # not needed by most commands

    chance = random.Random(0)
    medians = sorted(median(chance.choices(samples, k=len(samples))) for _ in range(_RESAMPLES))
    outside = int(_TAIL * _RESAMPLES)
    return Interval(median(samples), medians[outside], medians[-1 - outside])


def central_range(samples: Sequence[float]) -> float:
    """Largest over smallest of the middle four fifths: 1 if all agree; single outliers do not count."""
    ordered = sorted(samples)
    cut = len(ordered) // 10
    low, high = ordered[cut], ordered[-1 - cut]
    return high / low if low > 0 else float("inf")


def _samples_outside(count: int) -> int:
    """The number of samples to omit at each end so that the rest contains the median at 95 %."""
    outside, probability = 0, 1 / 2**count
    while outside < (count - 1) // 2:
        # One more can be omitted unless it is likely that at most that many are below the true median.
        probability += comb(count, outside + 1) / 2**count
        if probability > _TAIL:
            break
        outside += 1
    return outside
