"""Iterations of the script's own training in which values of its tensors are looked at.

Tensors are read, and nothing is written: weights, random states and gradients stay as they are. The iterations are
neither timed nor recorded.
"""

from __future__ import annotations

import time

from .lookups import Lookups
from .tables import large_tables

# Kept from before the script could put something else in its place.
_clock = time.monotonic

_LEAST = 2
"""Rows are chosen in one iteration and their lookups counted in another."""


class ValuesPass:
    """At most so many iterations, or as many as begin within ``seconds``, but two at least."""

    event = "values"

    def __init__(self, optimizers, iterations, seconds):
        self.remaining = iterations
        self._done = 0
        self._deadline = _clock() + seconds
        tables = large_tables(optimizers)
        self._lookups = Lookups(tables)

    @property
    def problem(self):
        """Why nothing more can be seen; empty as long as all goes well."""
        return self._lookups.problem

    def after_backward(self, tensors):
        """A backward pass from these tensors is over."""
        self._lookups.after_backward()

    def before_step(self, optimizer):
        """An optimizer is about to step."""

    def after_step(self, optimizer):
        """It has stepped."""

    def end_iteration(self):
        """An iteration ends here."""
        self._lookups.end_iteration()
        self._done += 1
        self.remaining -= 1
        if self._done >= _LEAST and (self._lookups.enough or _clock() > self._deadline):
            self.remaining = 0

    def end(self):
        """In the shape of ``skyline.trace.tensor_values.TensorValues``."""
        return {"iterations": self._done, "problem": self.problem, **self._lookups.end()}
