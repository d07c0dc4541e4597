"""The iterations of a fraction of a second, as one record."""

from __future__ import annotations

import math
import os
import time

_STATISTICS = "/proc/thread-self/schedstat"
_MOST_BYTES = 128
# Bound at import, before the script can replace them.
_open, _read, _close = os.open, os.read, os.close


class Window:
    """Sums over the iterations since ``began``."""

    def __init__(self, began):
        self.began = began
        self._processor_began = time.thread_time()
        self._delay_began = delayed_s()
        self._last = began
        self._iterations = []
        self.fetches = 0
        self._wait_s = 0.0
        self._longest_wait_s = 0.0
        self._own_s = 0.0
        self._passed = False
        self._losses = 0
        self._loss_sum = 0.0
        self._largest = -math.inf
        self._left_out_s = 0.0
        self.loss = None

    def fetched(self, seconds):
        """Count a batch that arrived after a wait of ``seconds``."""
        self.fetches += 1
        self._wait_s += seconds
        self._longest_wait_s = max(self._longest_wait_s, seconds)

    def backward_begins(self, now):
        """Note a backward pass; the first one ends the part of an iteration in which no rank waits for others."""
        if not self._passed:
            self._passed = True
            self._own_s += now - self._last

    def see_loss(self, value):
        """Add the loss of a backward pass."""
        self._losses += 1
        self._loss_sum += value
        # A comparison with NaN is false, so that NaN becomes the largest value.
        if not value <= self._largest:
            self._largest = value

    def left_out(self, seconds):
        """Exclude time of this iteration from the iteration time."""
        self._left_out_s += seconds

    def iteration_ended(self, now):
        """Add an iteration that ends now."""
        self._iterations.append(now - self._last - self._left_out_s)
        self._left_out_s = 0.0
        self._last = now
        self._passed = False

    def processor_s(self):
        """Processor time of this thread since the window began, in s."""
        return time.thread_time() - self._processor_began

    def delayed_s(self):
        """Time in s since the window began in which this thread waited for a processor; None if unknown."""
        now = delayed_s()
        return None if now is None or self._delay_began is None else now - self._delay_began

    def record(self, now, iteration):
        """The record of the window, with times in seconds."""
        times = sorted(self._iterations)
        mean = self._loss_sum / self._losses if self._losses else None
        return {
            "iteration": iteration,
            "iterations": len(times),
            "seconds": now - self.began,
            "typical_s": times[len(times) // 2],
            "wait_s": self._wait_s,
            "longest_wait_s": self._longest_wait_s,
            "fetches": self.fetches,
            "own_s": self._own_s,
            "loss": mean,
            "largest_loss": self._largest if self._losses else None,
        }


def delayed_s():
    """Seconds that the calling thread has waited for a processor, by Linux's scheduler; None if not counted."""
    try:
        descriptor = _open(_STATISTICS, os.O_RDONLY)
    except OSError:
        return None
    try:
        ran_ns, waited_ns, _ = map(int, _read(descriptor, _MOST_BYTES).split())
    except (OSError, ValueError):
        return None
    finally:
        _close(descriptor)
    # A kernel without these statistics reports zeros.
    return waited_ns / 1e9 if ran_ns else None
