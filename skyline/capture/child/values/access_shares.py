"""Computes the share of lookups that go to the hottest rows, for several total sizes of these rows."""

from __future__ import annotations

import torch

_HALVINGS = 13
"""Number of halvings of the size, which starts with all rows: the smallest size is an eight-thousandth of them."""
_FOLDS = 4
"""Parts of the iterations. Lookups of each part are counted for rows that the other parts chose, since the share of
rows in the lookups that chose them is too high."""
_NINE_IN_TEN = 1.645
"""Half the width of the 90 % range, in standard errors."""


class Accesses:
    """Lookups: the numbers of row, sample (-1: unknown) and iteration, each as an int64 tensor on the CPU."""

    __slots__ = ("iterations", "keys", "samples")

    def __init__(self, keys, samples, iterations):
        self.keys = keys
        self.samples = samples
        self.iterations = iterations

    def where(self, chosen):
        """The lookups selected by a mask."""
        return Accesses(self.keys[chosen], self.samples[chosen], self.iterations[chosen])


def access_shares(tables, accesses, iterations):
    """A dictionary of ``tables``, rows of ``TableAccess``, and ``hot``, rows of ``HotRows`` for all tables together."""
    with torch.no_grad():
        return {
            "tables": [_row(table, accesses, iterations) for table in tables],
            "hot": hot_rows(tables, accesses) if tables else [],
        }


def _row(table, accesses, iterations):
    own = accesses.where((accesses.keys >= table.first) & (accesses.keys < table.first + table.rows))
    return {
        "path": table.path,
        "rows": table.rows,
        "row_bytes": table.row_bytes,
        "lookups": len(own.keys) / max(1, iterations),
        "distinct_rows": len(_distinct(own)) / max(1, iterations),
        "hot": hot_rows([table], own),
    }


def hot_rows(tables, accesses):
    """Rows of ``HotRows`` by size, smallest first; empty for lookups in fewer than two iterations.

    Rows are chosen by their lookups per byte in three of four iterations, and their share is counted in the fourth;
    this is repeated for each fourth. Rows without a lookup in the choosing iterations come last, in any order. This
    share is too low on average, since the choice misses rows. The share in the choosing iterations themselves is too
    high. The two shares bound the range, each with the error of a mean over the number of iterations.
    """
    numbers = accesses.iterations.unique()
    folds = min(_FOLDS, len(numbers))
    if folds < 2:
        return []
    total = sum(table.size_bytes for table in tables)
    sizes = [total >> halving for halving in range(_HALVINGS, -1, -1)]
    fold = torch.searchsorted(numbers, accesses.iterations) % folds
    rows, place = accesses.keys.unique(return_inverse=True)
    by_fold = torch.bincount(place * folds + fold, minlength=len(rows) * folds).view(-1, folds)
    every = by_fold.sum(1)
    found = [
        _counted(_Order(tables, rows, every - by_fold[:, one]), accesses.where(fold == one), sizes, total)
        for one in range(folds)
    ]
    chosen_here = _counted(_Order(tables, rows, every), accesses, sizes, total)
    return [
        {"size_bytes": size, **_point(rows, itself["hit_shares"])}
        for size, rows, itself in zip(sizes, zip(*found, strict=True), chosen_here, strict=True)
    ]


def _point(rows, itself):
    """The mean over the parts, and the range of the share; ``itself`` has the shares in the choosing iterations."""
    names = ("cold_bytes", "whole_samples", "table_bytes")
    elsewhere = torch.cat([row["hit_shares"] for row in rows])
    lookups = sum(row["lookups"] for row in rows)
    likely = float(elsewhere.mean())
    return {
        "hit_share": likely,
        **{name: _mean([row[name] for row in rows]) for name in names},
        "least_share": max(0.0, likely - _error(elsewhere, lookups)),
        "most_share": min(1.0, max(likely, float(itself.mean())) + _error(itself, lookups)),
    }


def _error(shares, lookups):
    """The error of the mean over iterations with dependent lookups; at least the error of independent lookups."""
    mean = float(shares.mean())
    variance = max(float(shares.var()) / len(shares), mean * (1 - mean) / lookups)
    return _NINE_IN_TEN * variance**0.5


def _mean(values):
    if any(one is None for one in values):
        return None
    if isinstance(values[0], list):
        return [_mean(each) for each in zip(*values, strict=True)]
    return sum(values) / len(values)


def _counted(order, counted, sizes, total):
    need = order.needed(counted.keys)
    pairs = _distinct(counted)
    distinct, width = order.needed(pairs), _row_bytes(order.tables, pairs)
    _, iteration = counted.iterations.unique(return_inverse=True)
    lookups = iteration.bincount()
    samples = _needed_by_sample(counted, need)
    rows = []
    for size in sizes:
        # Rows that were not seen share the remaining size equally.
        rest = min(1.0, max(0.0, size - order.seen) / (total - order.seen)) if total > order.seen else 0.0
        hits = iteration.bincount((need <= size).double()) / lookups
        cold = float(width[distinct > size].sum()) / len(lookups)
        whole = None if samples is None else float((samples <= size).double().mean())
        rows.append(
            {
                "hit_shares": hits + (1 - hits) * rest,
                "lookups": len(counted.keys),
                "cold_bytes": cold * (1 - rest),
                "whole_samples": 1.0 if whole is not None and size >= total else whole,
                "table_bytes": order.kept_by_table(size, rest),
            }
        )
    return rows


class _Order:
    """Rows with lookups, ordered by their lookups per byte.

    ``taken`` is the total size in bytes of the hottest rows down to each of ``rows``.
    """

    def __init__(self, tables, rows, counts):
        seen = counts > 0
        self.rows, counts = rows[seen], counts[seen]
        self.tables = tables
        self._width = _row_bytes(tables, self.rows)
        order = (counts / self._width).argsort(descending=True, stable=True)
        self.taken = torch.empty_like(self._width)
        self.taken[order] = self._width[order].cumsum(0)
        self.seen = float(self._width.sum())

    def needed(self, keys):
        """For each key, the size in bytes at which its row is included; infinite for a row that was not seen."""
        place = torch.searchsorted(self.rows, keys).clamp_(max=len(self.rows) - 1)
        taken = self.taken[place]
        return torch.where(self.rows[place] == keys, taken, torch.full_like(taken, float("inf")))

    def kept_by_table(self, size, rest):
        """Bytes of each table within this size, including a share ``rest`` of the rows that were not seen."""
        of = _table_of(self.tables, self.rows)
        seen = torch.bincount(of, self._width, len(self.tables))
        kept = self.taken <= size
        within = torch.bincount(of[kept], self._width[kept], len(self.tables))
        whole = [table.size_bytes for table in self.tables]
        return [
            known + rest * (size_bytes - all_seen)
            for known, size_bytes, all_seen in zip(within.tolist(), whole, seen.tolist(), strict=True)
        ]


def _table_of(tables, keys):
    ends = torch.tensor([table.first + table.rows for table in tables], device="cpu")
    return torch.searchsorted(ends, keys, right=True)


def _row_bytes(tables, keys):
    widths = torch.tensor([table.row_bytes for table in tables], dtype=torch.float64, device="cpu")
    return widths[_table_of(tables, keys)]


def _distinct(accesses):
    """The distinct rows of each iteration."""
    if not len(accesses.keys):
        return accesses.keys
    span = int(accesses.keys.max()) + 1
    return (accesses.iterations * span + accesses.keys).unique() % span


def _needed_by_sample(counted, need):
    """The size in bytes at which all rows of a sample are included, for each sample; None if no sample is known."""
    known = counted.samples >= 0
    if not bool(known.any()):
        return None
    numbers = counted.iterations[known] * (int(counted.samples.max()) + 1) + counted.samples[known]
    _, place = numbers.unique(return_inverse=True)
    most = torch.zeros(int(place.max()) + 1, dtype=need.dtype, device="cpu")
    return most.scatter_reduce_(0, place, need[known], "amax")
