"""Predicted and measured times, and the errors of groups of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median

from skyline.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """One measured and one predicted time in ms. ``covered`` is true if an interval contains the measured time.

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
        """Relative error with its sign: positive if the prediction is too long."""
        return self.predicted_ms / self.measured_ms - 1


@dataclass(frozen=True, slots=True)
class Score:
    """The errors of a group, as shares.

    The mean, median, largest and time-weighted mean of the absolute errors, the mean of the signed errors,
    and the share of measured times inside the intervals. This share is None without intervals.
    """

    rows: int
    mean: float
    median: float
    worst: float
    weighted: float
    bias: float
    covered: float | None


def score(pairs: Sequence[Pair]) -> Score | None:
    """The score of the pairs. None if there are none."""
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
    """The scores of all groups that contain pairs."""
    everything = list(pairs)
    found: dict[str, Score] = {}
    for title, belongs in groups:
        made = score([pair for pair in everything if belongs(pair)])
        if made is not None:
            found[title] = made
    return found
