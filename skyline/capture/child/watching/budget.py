"""The share of a run's time that watching may take."""

from __future__ import annotations

import time

HOOKS_S = 15e-6
"""Upper estimate of the time of all hooks in an iteration without a sample."""


class Budget:
    """A budget that grows with the time of the run; a sample is taken once its cost fits.

    All times are processor times of the training thread, so that other programs on a busy machine do not count.
    """

    def __init__(self, share):
        self.share = share
        self._began = time.thread_time()
        self.spent_s = 0.0

    def allows(self, cost_s):
        """True if work of this cost keeps the total within the share."""
        return self.spent_s + cost_s <= (time.thread_time() - self._began) * self.share

    def spend(self, cost_s):
        """Add the cost of work that was done."""
        self.spent_s += cost_s

    def rest(self, iteration_s):
        """Number of windows without hooks after one with hooks, so that the hooks alone stay within the share."""
        allowed = self.share * iteration_s / 2
        return 0 if allowed >= HOOKS_S or iteration_s <= 0 else min(200, int(HOOKS_S / allowed))
