"""Observes the rows that a script looks up in its embedding tables, at the functions that PyTorch's modules call."""

from __future__ import annotations

import functools
from collections import Counter

import torch
from torch.nn import functional

from .access_shares import Accesses

_FUNCTIONS = ("embedding", "embedding_bag")
_MOST = 1_000_000
"""Number of lookups in all tables after which no further iteration is needed: they take 32 MB."""


class _Call:
    """One lookup call: its rows, the sample of each, the number of samples, the iteration and the backward pass."""

    __slots__ = ("count", "iteration", "number", "rows", "samples", "table")

    def __init__(self, table, rows, samples, count, iteration, number):
        self.table = table
        self.rows = rows
        self.samples = samples
        self.count = count
        self.iteration = iteration
        self.number = number


class Lookups:
    """Stores the number of each row that is looked up, with its iteration and its sample, until ``end``.

    Lookups of the padding row do not count, because they train nothing. A sample is a position in the first dimension
    of a table's input, or a bag, within one backward pass.
    """

    def __init__(self, tables):
        self._by_weight = {id(table.weight): table for table in tables}
        self._originals = {name: getattr(functional, name) for name in _FUNCTIONS}
        self._seen = []
        self.problem = ""
        self._iteration = self._passes = self._count = 0
        for name, original in self._originals.items():
            setattr(functional, name, self._watched(original))

    @property
    def enough(self):
        """True if further iterations would add little."""
        return self._count >= _MOST

    def after_backward(self):
        """Assign the next lookups to other samples."""
        self._passes += 1

    def end_iteration(self):
        """Assign the next lookups to another iteration."""
        self._iteration += 1

    def latest(self, table):
        """The rows of a table that this iteration has looked up so far, and the counts of each, on the CPU."""
        seen = [one.rows for one in self._seen if one.iteration == self._iteration and one.table is table]
        if not seen:
            return (), ()
        rows, counts = torch.cat(seen).unique(return_counts=True)
        return rows - table.first, counts

    def end(self):
        """Stop watching, and return the lookups of the complete iterations.

        Lookups after the last iteration of a script, for example in a test, are excluded.
        """
        for name, original in self._originals.items():
            setattr(functional, name, original)
        return self._accesses()

    def _watched(self, original):
        @functools.wraps(original)
        def watched(*args, **kwargs):
            weight = args[1] if len(args) > 1 else kwargs.get("weight")
            table = self._by_weight.get(id(weight))
            if table is not None and not self.problem:
                given = args[0] if args else kwargs["input"]
                offsets = args[2] if len(args) > 2 else kwargs.get("offsets")
                try:
                    self._see(table, given, offsets if original is self._originals["embedding_bag"] else None)
                except Exception as error:
                    # An error here must not stop the script.
                    self.problem = f"{type(error).__name__}: {error}"
            return original(*args, **kwargs)

        return watched

    def _see(self, table, given, offsets):
        if type(given) is not torch.Tensor:
            raise TypeError(f"indices are of the type {type(given).__name__}")
        with torch.no_grad():
            # Copies are needed, since the script may overwrite the indices and offsets after their use.
            rows = given.detach().reshape(-1).to("cpu", torch.int64, copy=True)
            samples, count = _samples(given, rows, offsets, closed=table.closed)
            if table.padding is not None:
                kept = rows != table.padding
                rows, samples = rows[kept], samples[kept]
        self._count += len(rows)
        self._seen.append(_Call(table, rows + table.first, samples, count, self._iteration, self._passes))

    def _accesses(self):
        """All lookups together; lookups of calls with an unusual number of samples have no sample."""
        seen = [one for one in self._seen if one.iteration < self._iteration]
        counts = Counter()
        for one in seen:
            counts[one.count] += len(one.rows)
        usual = max(counts, key=counts.get, default=0)
        keys, samples, iterations = [], [], []
        for one in seen:
            known = one.count == usual
            keys.append(one.rows)
            samples.append(one.samples + one.number * usual if known else torch.full_like(one.samples, -1))
            iterations.append(torch.full_like(one.rows, one.iteration))
        if not keys:
            return Accesses(*(torch.zeros(0, dtype=torch.int64, device="cpu") for _ in range(3)))
        return Accesses(torch.cat(keys), torch.cat(samples), torch.cat(iterations))


def _samples(given, rows, offsets, closed):
    """The sample of each index, and the number of samples."""
    places = torch.arange(len(rows), device="cpu")
    if offsets is not None and given.dim() == 1:
        begins = offsets.detach().to("cpu", torch.int64)
        return (torch.searchsorted(begins, places, right=True) - 1).clamp_(min=0), len(begins) - closed
    count = int(given.shape[0]) if given.dim() else 1
    return places // max(1, len(rows) // max(1, count)), count
