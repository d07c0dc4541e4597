"""The time from the first figures of a profile to its end, and the parts of it that measurements keep."""

from __future__ import annotations

import math
import time
from dataclasses import field

from skyline.lazy_dataclass import dataclass

_ITERATIONS_SHARE = 0.3
"""Part of the budget for further iterations of the script: the headline, and each ratio to it, come from them."""


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

    def for_iterations(self, settle_s: float) -> TrialBudget:
        """The part for further iterations: a share, ``settle_s`` at least; without an end where no trials follow."""
        least_s = settle_s if self.total_s > 0 else math.inf
        return TrialBudget(max(least_s, _ITERATIONS_SHARE * self.total_s), self.began_s)


@dataclass(frozen=True, slots=True)
class Worth:
    """The expected change by a group of trials, and its time.

    ``change`` is that of the speedups that they decide, as a difference of logarithms; ``takes_s`` the time of the
    least form of the group, ``most_s`` that of its full form.
    """

    change: float
    takes_s: float
    most_s: float = 0.0

    @property
    def per_second(self) -> float:
        """The expected change per second; 0 where nothing would change."""
        return self.change / max(self.takes_s, 1e-3) if self.change > 0 else 0.0


def kept_s(later: Worth, sooner: Worth, left_s: float) -> float:
    """Seconds to keep for trials that come ``later``, because they change what the ones before them measure with.

    Where the least of both fits in what is left, they have all that the least of the ``sooner`` ones leaves, for their
    full form at most. Otherwise their least form, if it changes more per second, and else nothing.
    """
    if later.change <= 0 or later.takes_s > left_s:
        return 0.0
    if later.takes_s + sooner.takes_s <= left_s:
        return min(max(later.takes_s, later.most_s), left_s - sooner.takes_s)
    return later.takes_s if later.per_second > sooner.per_second else 0.0
