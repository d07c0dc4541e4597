"""Errors of predicted figures relative to measured ones, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median


@dataclass(frozen=True, slots=True)
class Pair:
    """A predicted and a measured figure. ``low`` and ``high`` are the ends of the predicted interval, if any."""

    name: str
    predicted: float
    measured: float
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        """The relative error, positive if the prediction is too large."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True)
class Score:
    """Relative errors of a group as shares. One in ten exceeds ``worst_tenth``.

    ``contained`` is the share of measured figures inside the interval, ``width`` the interval's median width over the
    prediction. Both are None if intervals are not predicted.
    """

    rows: int
    mean: float
    worst_tenth: float
    bias: float
    contained: float | None = None
    width: float | None = None


def score(pairs: Sequence[Pair]) -> Score | None:
    """The score of a group. None if it is empty."""
    if not pairs:
        return None
    errors = sorted(abs(pair.error) for pair in pairs)
    spans = [(pair, pair.low, pair.high) for pair in pairs if pair.low is not None and pair.high is not None]
    return Score(
        len(pairs),
        fmean(errors),
        errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        median(pair.error for pair in pairs),
        fmean(float(low <= pair.measured <= high) for pair, low, high in spans) if spans else None,
        median((high - low) / pair.predicted for pair, low, high in spans) if spans else None,
    )


def signs(pairs: Sequence[Pair], beyond: float = 0.05) -> tuple[int, int]:
    """For measured ratios that differ from one by more than ``beyond``: the number with the right sign, and of all."""
    clear = [pair for pair in pairs if abs(pair.measured - 1) > beyond]
    return sum((pair.predicted - 1) * (pair.measured - 1) > 0 for pair in clear), len(clear)


def in_proportion(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs with predictions scaled so that half are too large, which is the best of one constant for all rows."""
    if not pairs:
        return []
    factor = median(pair.measured / pair.predicted for pair in pairs)
    return [Pair(pair.name, pair.predicted * factor, pair.measured) for pair in pairs]
