"""Interpolation and extrapolation of a quantity over the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log2

from skyline.interval import Interval, median

Sample = tuple[int, Interval]
"""A size and the value measured there."""

_WIDENING = 0.06
"""Growth of the relative half-width per doubling beyond the measured sizes, in addition to the slope's uncertainty."""


def interpolated(samples: Sequence[Sample], size: int) -> Interval:
    """The quantity at ``size``: as measured, on the line between two neighbours, or extrapolated.

    ``samples`` are at least two, sorted by size. The quantity is assumed not to decrease with size, and to decrease no
    faster than in proportion towards smaller sizes, because fixed costs are not negative.
    """
    for known, value in samples:
        if known == size:
            return value
    for left, right in pairwise(samples):
        if left[0] < size < right[0]:
            return _between(left, right, size)
    if size > samples[-1][0]:
        return _no_surer(_above(samples, size), samples[-1][1])
    return _no_surer(_below(samples, size), samples[0][1])


def _between(left: Sample, right: Sample, size: int) -> Interval:
    """The value on the line between the two samples, with the relative uncertainty of the less certain one.

    The interval's ends are not interpolated separately. The base has an exact ratio, so an untried size next to it
    would otherwise appear more certain than a measured one.
    """
    share = (size - left[0]) / (right[0] - left[0])
    a, b = left[1], right[1]
    value = a.value + share * (b.value - a.value)
    if a.value <= 0 or b.value <= 0:
        return Interval(value, a.low + share * (b.low - a.low), a.high + share * (b.high - a.high))
    return Interval(
        value,
        value * min(a.low / a.value, b.low / b.value),
        value * max(a.high / a.value, b.high / b.value),
    )


def _no_surer(found: Interval, edge: Interval) -> Interval:
    """The value with at least the relative uncertainty of the sample from which it was extrapolated."""
    if edge.value <= 0:
        return found
    low, high = found.value * edge.low / edge.value, found.value * edge.high / edge.value
    return Interval(found.value, min(found.low, low), max(found.high, high))


def _slopes(edge: Sample, others: Sequence[Sample]) -> Interval:
    """Growth per unit of size from the edge: the median over the other samples, and its extremes.

    All lines pass through the edge, so that the extrapolation is continuous there.
    """
    slopes = [(edge[1].value - value.value) / (edge[0] - size) for size, value in others]
    return Interval(max(0.0, median(slopes)), max(0.0, min(slopes)), max(0.0, *slopes))


def _above(samples: Sequence[Sample], size: int) -> Interval:
    edge_size, edge = samples[-1]
    slope = _slopes(samples[-1], samples[:-1])
    distance = size - edge_size
    value = edge.value + slope.value * distance
    widening = value * _WIDENING * log2(size / edge_size)
    return Interval(
        value,
        max(min(edge.low, value), edge.low + slope.low * distance - widening),
        edge.high + slope.high * distance + widening,
    )


def _below(samples: Sequence[Sample], size: int) -> Interval:
    edge_size, edge = samples[0]
    slope = _slopes(samples[0], samples[1:])
    distance = edge_size - size
    in_proportion = size / edge_size
    value = min(edge.value, max(edge.value * in_proportion, edge.value - slope.value * distance))
    widening = value * _WIDENING * log2(edge_size / size)
    return Interval(
        value,
        max(edge.low * in_proportion, min(value, edge.low - slope.high * distance - widening)),
        min(max(edge.high, value), max(value, edge.high - slope.low * distance + widening)),
    )
