"""The time from the first figures of a profile to its end, and the parts of it that measurements keep."""

from __future__ import annotations

import math
import time
from dataclasses import field

from skyline.capture.bare import ENOUGH_STEPS
from skyline.lazy_dataclass import dataclass

_ITERATIONS_SHARE, _SLOW_ITERATIONS_SHARE = 0.3, 0.5
"""Part of the budget for further iterations of the script: the headline, and each ratio to it, come from them. More
where iterations are so slow that ``_ENOUGH`` do not fit."""
_ENOUGH = 2 + ENOUGH_STEPS
"""Two are recorded."""


def _now() -> float:
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class TrialBudget:
    """Seconds from the first figures on, for further iterations and for all trials together.

    A measurement that does not fit in what is left is not started.
    """

    total_s: float
    began_s: float = field(default_factory=_now)

    @property
    def ends_s(self) -> float:
        """When it is spent, by ``time.monotonic``."""
        return self.began_s + self.total_s

    @property
    def left_s(self) -> float:
        """All that is left now."""
        return max(0.0, self.ends_s - _now())

    def fits(self, takes_s: float) -> bool:
        """True if something that takes so long would end in time."""
        return takes_s <= self.ends_s - _now()

    def without(self, kept_s: float) -> TrialBudget:
        """The budget of what comes before something that takes ``kept_s``."""
        return TrialBudget(max(0.0, self.total_s - kept_s), self.began_s)

    def longer(self, by_s: float) -> TrialBudget:
        """A budget that ends so much later."""
        return TrialBudget(self.total_s + by_s, self.began_s)

    def for_iterations(self, settle_s: float, step_s: float) -> TrialBudget:
        """The part for further iterations of ``step_s``: a share, ``settle_s`` at least; no end without trials."""
        least_s = settle_s if self.total_s > 0 else math.inf
        slow_s = min(_ENOUGH * step_s, _SLOW_ITERATIONS_SHARE * self.total_s)
        return TrialBudget(max(least_s, slow_s, _ITERATIONS_SHARE * self.total_s), self.began_s)
