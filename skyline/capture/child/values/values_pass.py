"""Iterations of the script's own training in which values of its tensors are looked at.

Tensors are read, and nothing is written: weights, random states and gradients stay as they are. The iterations are
neither timed nor recorded.
"""

from __future__ import annotations

import time

from .access_shares import access_shares
from .lookups import Lookups
from .row_changes import RowChanges
from .tables import large_tables, trained_modules
from .zeros import Zeros

# Kept from before the script could put something else in its place.
_clock = time.monotonic

_LEAST = 2
"""Rows are chosen in one iteration and their lookups counted in another."""


class ValuesPass:
    """One iteration; with large embeddings so many, or as many as begin within ``seconds``, but two at least.

    Zeros are counted in the first one.
    """

    event = "values"

    def __init__(self, optimizers, iterations, seconds):
        modules = trained_modules(optimizers)
        self._tables = large_tables(modules)
        self.remaining = iterations if self._tables else 1
        self.problem = ""
        self._done = 0
        self._deadline = _clock() + seconds
        self._lookups = Lookups(self._tables)
        self._changes = RowChanges(self._tables, self._lookups)
        self._zeros = Zeros(modules)

    def after_backward(self, tensors):
        """A backward pass from these tensors is over."""
        self._lookups.after_backward()

    def before_step(self, optimizer):
        """An optimizer is about to step."""
        self._changes.before_step(optimizer)

    def after_step(self, optimizer):
        """It has stepped."""
        self._changes.after_step()

    def end_iteration(self):
        """An iteration ends here."""
        self._zeros.stop()
        self._lookups.end_iteration()
        self._done += 1
        self.remaining -= 1
        if self._done >= _LEAST and (self._lookups.enough or _clock() > self._deadline):
            self.remaining = 0

    def end(self):
        """In the shape of ``skyline.trace.tensor_values.TensorValues``."""
        told = {"tables": [], "hot": [], "zeros": []}
        try:
            told = self._told(self._lookups.end())
        except Exception as error:
            # The script goes on.
            self._lookups.problem = f"{type(error).__name__}: {error}"
        return {"iterations": self._done, "problem": self._lookups.problem, **told}

    def _told(self, accesses):
        told = access_shares(self._tables, accesses, self._done)
        for row, table in zip(told["tables"], self._tables, strict=True):
            row["steady"] = self._changes.rows(table)
        return {**told, "zeros": [] if self._zeros.problem else self._zeros.rows()}
