"""Cuts an iteration at its backward passes if it takes too long to measure as a whole."""

from __future__ import annotations

import time

from . import user_code

_clock = time.monotonic


class LongIteration:
    """Decides during the warm-up if an iteration is one backward pass instead of one optimizer step.

    L-BFGS calls its closure twenty times in one step; gradient accumulation may take a hundred passes. If all passes
    come from one line, they do the same work, and the time from one to the next is representative. Passes from
    several lines, as in a GAN, differ: such an iteration is not cut. ``longest_s`` is the limit from the first pass of
    an iteration on; None: iterations are not cut.
    """

    def __init__(self, longest_s=None):
        self._longest_s = longest_s
        self.line = None
        """Line of the backward pass that ends an iteration; None while iterations are whole."""
        self.passes = 0
        """Passes since the last optimizer step, or since the start if iterations are cut."""
        self._began = 0.0
        self._lines = []
        self._fixed = longest_s is None

    def passed(self):
        """Count a backward pass. True if an iteration ended with it."""
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
        """Mean time from one pass to the next at the first cut, in ms; None while iterations are whole."""
        return None if self.line is None else (_clock() - self._began) / (self.passes - 1) * 1e3

    def ended(self):
        """Note an optimizer step that ends an iteration of the script. True if it is a boundary."""
        if self.line is not None:
            return False
        self.passes = 0
        self._lines.clear()
        return True

    def fix(self):
        """Keep the kind of iteration from now on: the warm-up is over."""
        self._fixed = True
