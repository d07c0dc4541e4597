"""A ratio measured in rounds: its median, its bootstrap interval, and a check of the rounds."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NULL_TOLERANCE = 0.03
"""A round is not used if its two timings of the same code differ by more than this share."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median over rounds, with the 95 % bootstrap interval of that median."""

    value: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, samples: Sequence[float], resamples: int = 4000) -> Ratio:
        """The ratio from one sample per round. The resampling is seeded, so that a result file can be reproduced."""
        if not samples:
            raise ValueError("no rounds are left: every one was discarded because the machine drifted")
        chance = random.Random(0)
        medians = sorted(statistics.median(chance.choices(samples, k=len(samples))) for _ in range(resamples))
        low, high = medians[int(0.025 * resamples)], medians[int(0.975 * resamples) - 1]
        return cls(statistics.median(samples), low, high, len(samples))

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def is_steady(null: float) -> bool:
    """True if a round's null ratio (the same code timed twice) is close enough to one."""
    return abs(null - 1) <= NULL_TOLERANCE
