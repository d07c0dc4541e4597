"""An iteration that is too long to wait for: it is cut at its backward passes."""

from __future__ import annotations

import time

from . import user_code

_clock = time.monotonic


class LongIteration:
    """Decides during warm-up whether an iteration is one backward pass instead of one optimizer step.

    L-BFGS calls its closure twenty times in one step; accumulated gradients may take a hundred passes. Where all passes
    come from one line, they do the same work, and the time from one to the next stands for the others. Passes of
    several lines, as of a GAN, differ: such an iteration stays whole. ``longest_s`` counts from the first pass of an
    iteration on; None: iterations stay whole.
    """

    def __init__(self, longest_s=None):
        self._longest_s = longest_s
        self.line = None
        """Of the backward pass that ends an iteration; None while iterations are whole."""
        self.passes = 0
        """Since the last optimizer step, or since the start where iterations are cut."""
        self._began = 0.0
        self._lines = []
        self._fixed = longest_s is None

    def passed(self):
        """A backward pass ended. Gives whether an iteration ended with it."""
        if self._fixed:
            return self.line is not None
        self.passes += 1
        if self.line is not None:
            return True
        line = user_code.innermost_line()
        if not self._lines:
            self._began = _clock()
            self._lines.append(line)
            return False
        if line not in self._lines:
            self._lines.append(line)
        if len(self._lines) == 1 and _clock() - self._began > self._longest_s:
            self.line = line
        return self.line is not None

    def pass_ms(self):
        """Mean time from one pass to the next when iterations are cut for the first time; None while they are whole."""
        return None if self.line is None else (_clock() - self._began) / (self.passes - 1) * 1e3

    def ended(self):
        """An iteration ended with an optimizer step. Gives whether that is a boundary."""
        if self.line is not None:
            return False
        self.passes = 0
        self._lines.clear()
        return True

    def fix(self):
        """Warm-up is over: what an iteration is does not change any more."""
        self._fixed = True
