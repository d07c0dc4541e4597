"""Predicted and measured times, and the errors of groups of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """One measured time with what a predictor said of it, in ms; ``covered`` where it gave an interval.

    ``gpu``, ``kind`` (an operator, or inf and train) and ``name`` say what was measured.
    """

    gpu: str
    kind: str
    name: str
    measured_ms: float
    predicted_ms: float
    unseen: bool
    covered: bool | None = None

    @property
    def error(self) -> float:
        """Relative, with its sign: above zero where too long was predicted."""
        return self.predicted_ms / self.measured_ms - 1


@dataclass(frozen=True, slots=True)
class Score:
    """The errors of a group, as shares.

    Of the absolute ones mean, median, largest and mean weighted by time; the mean with signs; and the share of
    measured times inside of the intervals, None without any.
    """

    rows: int
    mean: float
    median: float
    worst: float
    weighted: float
    bias: float
    covered: float | None


def score(pairs: Sequence[Pair]) -> Score | None:
    """That of the pairs; None without any."""
    if not pairs:
        return None
    errors = [abs(pair.error) for pair in pairs]
    inside = [pair.covered for pair in pairs if pair.covered is not None]
    total = sum(pair.measured_ms for pair in pairs)
    return Score(
        len(pairs),
        fmean(errors),
        median(errors),
        max(errors),
        sum(abs(pair.predicted_ms - pair.measured_ms) for pair in pairs) / total,
        fmean(pair.error for pair in pairs),
        fmean(inside) if inside else None,
    )


Group = tuple[str, Callable[[Pair], bool]]


def grouped(pairs: Iterable[Pair], groups: Sequence[Group]) -> dict[str, Score]:
    """The scores of those groups that have pairs."""
    everything = list(pairs)
    found: dict[str, Score] = {}
    for title, belongs in groups:
        made = score([pair for pair in everything if belongs(pair)])
        if made is not None:
            found[title] = made
    return found
