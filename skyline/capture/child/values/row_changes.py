"""By how much an optimizer step changes the rows that its batch looked up, relative to the rows."""

from __future__ import annotations

import torch

_MOST_ROWS = 4096
"""Rows of a table that are compared in a step."""
_CHANGES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


class RowChanges:
    """Copies looked-up rows before each step of the optimizer that trains them, and compares them after it."""

    def __init__(self, tables, lookups):
        self._tables = tables
        self._lookups = lookups
        self._held = []
        self.problem = ""
        self._seen = {table.path: [] for table in tables}

    def before_step(self, optimizer):
        """The rows have their old values."""
        self._held = []
        self._unless_failed(
            self._hold, {id(one) for group in optimizer.param_groups for one in group["params"]}
        )

    def after_step(self):
        """The rows have their new values."""
        self._unless_failed(self._compare)
        self._held = []

    def _unless_failed(self, work, *given):
        """Weights of other kinds cannot be compared; the script goes on."""
        if self.problem:
            return
        try:
            with torch.no_grad():
                work(*given)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def _hold(self, updated):
        for table in self._tables:
            rows, counts = self._lookups.latest(table) if id(table.weight) in updated else ((), ())
            if len(rows):
                stride = -(-len(rows) // _MOST_ROWS)
                at = rows[::stride].to(table.weight.device)
                self._held.append((table, at, table.weight.detach()[at], counts[::stride]))

    def _compare(self):
        for table, at, before, counts in self._held:
            change = (table.weight.detach()[at] - before).float().norm(dim=1)
            share = change / before.float().norm(dim=1).clamp_(min=torch.finfo(torch.float32).tiny)
            self._seen[table.path].append((share.to("cpu"), counts))

    def rows(self, table):
        """As of ``skyline.trace.tensor_values.SteadyRows``, by change; empty without a step."""
        seen = self._seen[table.path]
        if not seen:
            return []
        changes = torch.cat([share for share, _ in seen])
        counts = torch.cat([counts for _, counts in seen]).double()
        found = []
        for change in _CHANGES:
            steady = changes <= change
            found.append(
                {
                    "change": change,
                    "row_share": float(steady.double().mean()),
                    "lookup_share": float(counts[steady].sum() / counts.sum()),
                }
            )
        return found
