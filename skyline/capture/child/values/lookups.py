"""The rows that a script looks up in its embedding tables, seen where PyTorch's modules call the lookup."""

from __future__ import annotations

import functools
from collections import Counter

import torch
from torch.nn import functional

from .access_shares import Accesses

_FUNCTIONS = ("embedding", "embedding_bag")
_MOST = 1_000_000
"""Lookups of all tables together, after which no further iteration is needed: they take 32 MB."""


class _Call:
    """One lookup: the rows, the sample of each, of how many samples, and when."""

    __slots__ = ("count", "iteration", "number", "rows", "samples", "table")

    def __init__(self, table, rows, samples, count, iteration, number):
        self.table = table
        self.rows = rows
        self.samples = samples
        self.count = count
        self.iteration = iteration
        self.number = number


class Lookups:
    """Keeps the number of each row that is looked up, with its iteration and its sample, until ``end``.

    A lookup of the padding row does not count: it trains nothing. A sample is a position in the first dimension of
    what a table is given, or a bag, in one backward pass.
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
        """The next lookups are of other samples."""
        self._passes += 1

    def end_iteration(self):
        """The next lookups are of another iteration."""
        self._iteration += 1

    def latest(self, table):
        """The rows of a table that this iteration looked up so far, and how often each, on the CPU."""
        seen = [one.rows for one in self._seen if one.iteration == self._iteration and one.table is table]
        if not seen:
            return (), ()
        rows, counts = torch.cat(seen).unique(return_counts=True)
        return rows - table.first, counts

    def end(self):
        """Watch no longer; the lookups of the iterations that have ended.

        Behind the last iteration of a script there may be others, such as those of a test.
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
                    # The script goes on.
                    self.problem = f"{type(error).__name__}: {error}"
            return original(*args, **kwargs)

        return watched

    def _see(self, table, given, offsets):
        if type(given) is not torch.Tensor:
            raise TypeError(f"indices are of the type {type(given).__name__}")
        with torch.no_grad():
            # The script may write over the indices, or the offsets, as soon as they are used.
            rows = given.detach().reshape(-1).to("cpu", torch.int64, copy=True)
            samples, count = _samples(given, rows, offsets, closed=table.closed)
            if table.padding is not None:
                kept = rows != table.padding
                rows, samples = rows[kept], samples[kept]
        self._count += len(rows)
        self._seen.append(_Call(table, rows + table.first, samples, count, self._iteration, self._passes))

    def _accesses(self):
        """All lookups in one piece; those of calls with another number of samples than most have no sample."""
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
    """The sample of each index, and how many there are."""
    places = torch.arange(len(rows), device="cpu")
    if offsets is not None and given.dim() == 1:
        begins = offsets.detach().to("cpu", torch.int64)
        return (torch.searchsorted(begins, places, right=True) - 1).clamp_(min=0), len(begins) - closed
    count = int(given.shape[0]) if given.dim() else 1
    return places // max(1, len(rows) // max(1, count)), count
