"""The time from the first figures of a profile to its end, and its division among measurements."""

from __future__ import annotations

import math
import time
from dataclasses import field

from skyline.capture.bare import ENOUGH_STEPS
from skyline.lazy_dataclass import dataclass

_ITERATIONS_SHARE, _SLOW_ITERATIONS_SHARE = 0.3, 0.5
"""Shares of the budget for further iterations of the script, which give the headline and the base of each ratio.
The larger share applies if iterations are so slow that ``_ENOUGH`` of them do not fit into the smaller one."""
_ENOUGH = 2 + ENOUGH_STEPS
"""Number of iterations for precise times; two of them are recorded."""


def _now() -> float:
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class TrialBudget:
    """A time limit from the first figures on, for further iterations and all trials together.

    A measurement that does not fit in the remaining time is not started.
    """

    total_s: float
    began_s: float = field(default_factory=_now)

    @property
    def ends_s(self) -> float:
        """The end of the budget, by ``time.monotonic``."""
        return self.began_s + self.total_s

    @property
    def left_s(self) -> float:
        """Remaining seconds."""
        return max(0.0, self.ends_s - _now())

    def fits(self, takes_s: float) -> bool:
        """True if something that takes ``takes_s`` would end in time."""
        return takes_s <= self.ends_s - _now()

    def without(self, kept_s: float) -> TrialBudget:
        """A budget that leaves ``kept_s`` for a later measurement."""
        return TrialBudget(max(0.0, self.total_s - kept_s), self.began_s)

    def longer(self, by_s: float) -> TrialBudget:
        """A budget that ends ``by_s`` later."""
        return TrialBudget(self.total_s + by_s, self.began_s)

    def for_iterations(self, settle_s: float, step_s: float) -> TrialBudget:
        """The part for further iterations of ``step_s``: a share, at least ``settle_s``; unlimited without trials."""
        least_s = settle_s if self.total_s > 0 else math.inf
        slow_s = min(_ENOUGH * step_s, _SLOW_ITERATIONS_SHARE * self.total_s)
        return TrialBudget(max(least_s, slow_s, _ITERATIONS_SHARE * self.total_s), self.began_s)
