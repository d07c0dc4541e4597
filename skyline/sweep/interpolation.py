"""Times at values that did not run, estimated from the times at values that did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.sweep.point import Provenance, SweepPoint, TimePart, Values

Array = NDArray[Any]

_NINE_IN_TEN = 1.645
"""Half the width of a 90 % range, in standard deviations of a normal distribution."""
_UNKNOWN = (TimePart("", Interval(1.0, 1e-3, 1e3)),)
"""The only part of a time without a prediction: of unknown size, and equal at all values."""
_FORM = 0.05
"""Assumed: the relative error of one factor for all operators of a kind."""
_LEAST_RANGE = 1e-3
"""The least standard deviation of the logarithm of a part, since an exact part has none."""
_DEPARTURE_PER_DOUBLING = 0.1
"""Assumed: the least standard deviation of the ratio to the prediction, per doubling of the value."""
_STEPS = 30
_LONGEST_STEP = 1.0


def interpolated(points: Sequence[SweepPoint], runs: Mapping[Values, Interval]) -> tuple[SweepPoint, ...]:
    """The points, in their order, with the measured times of the ``runs``, and with other times fitted to them.

    Each kind of operator of the prediction gets one factor, likely within the range of its kind; the factors
    are the most likely ones given the runs. The remaining ratio of measured to fitted times is interpolated
    between the runs: its logarithm by kriging with a linear variogram (Cressie, Statistics for Spatial Data,
    1993, section 3.2), over the logarithms of the values. With one setting, this is a straight line between
    neighbours, and beyond them the ratio of the last one. Points without a prediction are interpolated from
    the runs alone.
    """
    if not runs:
        return tuple(points)
    ran = [one for one in points if one.values in runs]
    if not ran:
        return tuple(points)
    fit = _Fit.of(points, ran, [runs[one.values] for one in ran])
    made: list[SweepPoint] = []
    for index, one in enumerate(points):
        if one.values in runs:
            made.append(replace(one, iteration_ms=runs[one.values], provenance=Provenance.MEASURED))
        else:
            made.append(replace(one, iteration_ms=fit.read(index), provenance=Provenance.INTERPOLATED))
    return tuple(made)


def between_runs(ran: Sequence[SweepPoint], wanted: Sequence[Values]) -> tuple[SweepPoint, ...]:
    """Points at ``wanted`` values of the first setting, between two that ran with the same other values.

    They have no figures other than the time.
    """
    found: list[SweepPoint] = []
    for others in dict.fromkeys(values[1:] for values in wanted):
        near = [one for one in ran if one.values[1:] == others]
        ends = [one.values[0] for one in near]
        inside = [
            SweepPoint(one, Interval.exact(0.0))
            for one in wanted
            if one[1:] == others and ends and min(ends) < one[0] < max(ends)
        ]
        times = {one.values: one.iteration_ms for one in near}
        found += interpolated([*near, *inside], times)[len(near) :]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Fit:
    """The fitted prediction of all points, and the remaining ratios at the points that ran.

    ``logs`` is the logarithm of the fitted time of each point, ``shares`` the share of each kind in it.
    ``places`` are the values as coordinates. ``ran`` are the indices of the points that ran, with the
    logarithm of measured over fitted time in ``rest`` and its uncertainty in ``spreads``. ``covariance`` is
    the covariance of the logarithms of the factors, ``slope`` the variance of the difference of two ratios
    per unit of distance.
    """

    logs: Array
    shares: Array
    places: Array
    ran: Array
    rest: Array
    spreads: Array
    covariance: Array
    slope: float

    @classmethod
    def of(cls, points: Sequence[SweepPoint], ran: Sequence[SweepPoint], times: Sequence[Interval]) -> _Fit:
        kinds, priors = _kinds(points)
        parts = np.array([_row(one, kinds) for one in points])
        places = _places([one.values for one in points])
        at = np.array([index for index, one in enumerate(points) if one in ran])
        measured = np.log([one.value for one in times])
        spreads = np.array([_spread(one) for one in times])
        factors, covariance = _factors(parts[at], measured, np.hypot(spreads, _FORM), priors)
        fitted = parts * np.exp(factors)
        logs = np.log(fitted.sum(axis=1))
        rest = measured - logs[at]
        return cls(
            logs,
            fitted / fitted.sum(axis=1, keepdims=True),
            places,
            at,
            rest,
            spreads,
            covariance,
            _slope(places[at], rest),
        )

    def read(self, index: int) -> Interval:
        """The time at a point that did not run, with its 90 % range."""
        between = _distances(self.places[self.ran])
        to: Array = np.linalg.norm(self.places[self.ran] - self.places[index], axis=1)
        weights, variance = _kriged(between, to)
        value = exp(float(self.logs[index] + weights @ self.rest))
        # Factors that all runs share cancel; parts with a larger share here than in the runs do not.
        apart: Array = self.shares[index] - weights @ self.shares[self.ran]
        variance = self.slope * variance + float(
            apart @ self.covariance @ apart + weights**2 @ self.spreads**2
        )
        half = exp(_NINE_IN_TEN * variance**0.5)
        return Interval(value, value / half, value * half)


def _kinds(points: Sequence[SweepPoint]) -> tuple[tuple[str, ...], Array]:
    """The kinds of all parts, and the standard deviation of each one's logarithm, from its total range."""
    sums: dict[str, list[float]] = {}
    for one in points:
        for part in one.parts or _UNKNOWN:
            total = sums.setdefault(part.kind, [0.0, 0.0])
            total[0] += part.time_ms.low
            total[1] += part.time_ms.high
    spreads = [_spread_of(low, high) for low, high in sums.values()]
    return tuple(sums), np.maximum(spreads, _LEAST_RANGE)


def _row(point: SweepPoint, kinds: Sequence[str]) -> list[float]:
    known = {part.kind: part.time_ms.value for part in point.parts or _UNKNOWN}
    return [known.get(kind, 0.0) for kind in kinds]


def _spread(time: Interval) -> float:
    return _spread_of(time.low, time.high)


def _spread_of(low: float, high: float) -> float:
    """The standard deviation of the logarithm, from a 90 % range."""
    return log(high / low) / (2 * _NINE_IN_TEN) if low > 0 else _LEAST_RANGE


def _places(values: Sequence[Values]) -> Array:
    """The values as coordinates: their logarithms, or their position in the range if some are zero or below."""
    found = np.array(values, dtype=float)
    columns: list[Array] = []
    for column in found.T:
        width = float(np.ptp(column)) or 1.0
        columns.append(np.log(column) if column.min() > 0 else (column - column.min()) / width)
    return np.column_stack(columns)


def _factors(parts: Array, measured: Array, spreads: Array, priors: Array) -> tuple[Array, Array]:
    """The logarithm of each kind's most likely factor, and their covariance, by Gauss-Newton steps."""
    weights, own = 1 / spreads**2, 1 / priors**2
    logs: Array = np.zeros(len(priors))
    for _ in range(_STEPS):
        logs = logs + _step(logs, parts, measured, weights, own)
    _, shares = _totals(logs, parts)
    return logs, np.linalg.inv((shares.T * weights) @ shares + np.diag(own))


def _step(logs: Array, parts: Array, measured: Array, weights: Array, own: Array) -> Array:
    total, shares = _totals(logs, parts)
    pull = shares.T @ (weights * (measured - np.log(total))) - own * logs
    step = np.linalg.solve((shares.T * weights) @ shares + np.diag(own), pull)
    return np.minimum(np.maximum(step, -_LONGEST_STEP), _LONGEST_STEP)


def _totals(logs: Array, parts: Array) -> tuple[Array, Array]:
    """The time of each iteration with these factors, and the share of each kind in it."""
    times = parts * np.exp(logs)
    total = times.sum(axis=1)
    return total, times / total[:, None]


def _distances(places: Array) -> Array:
    return np.linalg.norm(places[:, None, :] - places[None, :, :], axis=2)


def _slope(places: Array, rest: Array) -> float:
    """The variance of the difference of two ratios per unit of distance, from all pairs of runs."""
    least = _DEPARTURE_PER_DOUBLING**2 / log(2)
    rows, columns = np.triu_indices(len(rest), 1)
    apart = _distances(places)[rows, columns]
    if not len(apart) or apart.min() <= 0:
        return least
    return max(least, float(np.mean((rest[rows] - rest[columns]) ** 2 / apart)))


def _kriged(between: Array, to: Array) -> tuple[Array, float]:
    """The weights of the runs at a place, and the variance there for a slope of one."""
    count = len(to)
    system: Array = np.ones((count + 1, count + 1))
    system[:count, :count], system[count, count] = between, 0.0
    solution: Array = np.linalg.solve(system, np.append(to, 1.0))
    weights = solution[:count]
    return weights, max(0.0, float(weights @ to + solution[count]) / 2)
