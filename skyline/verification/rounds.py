"""Rounds of one turn each: the script, the script changed, and the script again in a process of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from skyline.interval import Interval

_RESAMPLES = 4000
_TAIL = 0.025


@dataclass(frozen=True, slots=True)
class Round:
    """The typical iteration of each turn in ms, and how many cores other programs kept busy on average."""

    base_ms: float
    change_ms: float
    again_ms: float
    others_cores: float = 0.0

    @property
    def ratio(self) -> float:
        """The change over the mean of the two turns around it: a machine that slows down steadily cancels out."""
        return self.change_ms / ((self.base_ms + self.again_ms) / 2)

    @property
    def null(self) -> float:
        """The script over itself: one, but for noise and for what differs between two processes."""
        return self.again_ms / self.base_ms


def bootstrap(samples: Sequence[float]) -> Interval:
    """The median with the 95 % percentile interval of its bootstrap distribution (Efron 1979).

    Rounds are drawn with replacement. The draws are seeded: the same rounds give the same interval.
    """
    chance = random.Random(0)
    medians = sorted(median(chance.choices(samples, k=len(samples))) for _ in range(_RESAMPLES))
    outside = int(_TAIL * _RESAMPLES)
    return Interval(median(samples), medians[outside], medians[-1 - outside])
