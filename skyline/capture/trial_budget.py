"""The time that trials may take after the script itself is measured."""

from __future__ import annotations

import time
from dataclasses import field

from skyline.lazy_dataclass import dataclass

_CURVE_SHARE = 0.6
"""Other batch sizes come first: their curve is what a person drags."""


@dataclass(frozen=True, slots=True)
class TrialBudget:
    """Seconds for trials of other batch sizes, then of other threads and number formats.

    Each kind of trial has a least number of rounds, below which it says nothing: a slow script exceeds the budget.
    """

    total_s: float
    began_s: float = field(default_factory=time.monotonic)

    @property
    def curve_s(self) -> float:
        """The part for other batch sizes that is left now, with the start of their runs."""
        return max(0.0, self.began_s + _CURVE_SHARE * self.total_s - time.monotonic())

    @property
    def left_s(self) -> float:
        """All that is left now."""
        return max(0.0, self.began_s + self.total_s - time.monotonic())
