"""Widening of predicted ranges per what-if by the errors of measured changes (split conformal prediction)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil, exp, log

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.constant import Constant

COVERAGE = Constant.at(0.9, "the share of measurements that ranges are meant to hold")
LEAST_CASES = Constant.at(
    20,
    "fewer give no factor: of 9, the least with a quantile of 90 %, that is the maximum, which one outlier decides",
)
LEAST_HALF_WIDTH = Constant.at(
    0.02,
    "an assumption: repeated measurements of one change differ by as much, and a narrower range counts as this wide",
)


@dataclass(frozen=True, slots=True)
class ScoredRange:
    """A predicted ratio with its modelled range, and the ratio that was measured."""

    predicted: Interval
    measured: float

    @property
    def score(self) -> float:
        """The error over half of the modelled range on its side, in logarithms; 1 at the end of the range."""
        below, above = half_widths(self.predicted)
        error = log(self.measured / self.predicted.value)
        return max(error / above, -error / below)


def half_widths(ratio: Interval) -> tuple[float, float]:
    """Both halves of a range of ratios, in logarithms."""
    below, above = log(ratio.value / ratio.low), log(ratio.high / ratio.value)
    return max(LEAST_HALF_WIDTH.value, below), max(LEAST_HALF_WIDTH.value, above)


def factor_of(cases: Sequence[ScoredRange], coverage: float = COVERAGE.value) -> float | None:
    """The factor by which modelled ranges must be stretched to include a new case with this probability.

    It is the score of rank ``ceil((n + 1) * coverage)`` of n (Vovk and others, 2005; Papadopoulos and others,
    2002), which is valid for a finite number of cases. None with too few cases.
    """
    return quantile([case.score for case in cases], coverage)


def quantile(scores: Sequence[float], coverage: float = COVERAGE.value) -> float | None:
    """The score that a new case does not exceed with this probability; None with too few cases."""
    rank = ceil((len(scores) + 1) * coverage)
    return sorted(scores)[rank - 1] if LEAST_CASES.value <= len(scores) >= rank else None


def stretched(ratio: Interval, factor: float) -> Interval:
    """The range of a ratio with both halves multiplied by a factor."""
    below, above = half_widths(ratio)
    return Interval(ratio.value, ratio.value * exp(-factor * below), ratio.value * exp(factor * above))


@cache
def published_factors() -> dict[str, float]:
    """The factor for the ranges of predicted profiles, by what-if (``benchmarks/whatif_pairs_published.py``)."""
    # Imported here because few questions are about predictions.
    import json
    from importlib.resources import files

    content = json.loads(
        files("skyline.whatif").joinpath("published_widths.json").read_text(encoding="utf-8")
    )
    return {name: float(one["factor"]) for name, one in content["factors"].items()}
