"""The share of a run's time that watching may take."""

from __future__ import annotations

import time

HOOKS_S = 15e-6
"""Upper estimate of the time of all hooks in an iteration without a sample."""


class Budget:
    """Time accrues as the run goes on; a sample is taken once its time has accrued.

    All times are processor times of the thread that trains: on a busy machine other programs would count otherwise.
    """

    def __init__(self, share):
        self.share = share
        self._began = time.thread_time()
        self.spent_s = 0.0

    def allows(self, cost_s):
        """True if work of this cost keeps the total within the share."""
        return self.spent_s + cost_s <= (time.thread_time() - self._began) * self.share

    def spend(self, cost_s):
        """Work of this cost was done."""
        self.spent_s += cost_s

    def rest(self, iteration_s):
        """Number of windows without hooks between two with them, so that the hooks alone stay within the share."""
        allowed = self.share * iteration_s / 2
        return 0 if allowed >= HOOKS_S or iteration_s <= 0 else min(200, int(HOOKS_S / allowed))
