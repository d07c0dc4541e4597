"""Iterations of the script's own training in which values of its tensors are read.

Nothing is written: weights, random states and gradients do not change. The iterations are neither timed nor recorded.
"""

from __future__ import annotations

import time

import torch

from ..module_facts import named_modules
from ..observed_keras import parameters_of
from .access_shares import access_shares
from .lookups import Lookups
from .zeros import Zeros

# Bound at import, before the script can replace it.
_clock = time.monotonic

_LEAST = 2
"""Minimum number of iterations: rows are chosen in one, and their lookups are counted in another."""


class ValuesPass:
    """A pass over one iteration, or with large embeddings over up to ``iterations`` that begin within ``seconds``.

    With large embeddings it has at least two iterations. Zeros and bits of values are counted in the first one.
    ``done`` is the number of completed iterations, ``after`` the number of iterations before the pass.
    """

    event = "values"

    def __init__(self, optimizers, iterations, seconds, after=None):
        modules = trained_modules(optimizers)
        self._tables = large_tables(modules)
        self.remaining = iterations if self._tables else 1
        self.problem = ""
        self.done = 0
        self._after = after
        self._deadline = _clock() + seconds
        self._lookups = Lookups(self._tables)
        self._changes = RowChanges(self._tables, self._lookups)
        self._zeros = Zeros(modules)

    def after_backward(self, tensors):
        """Note the end of a backward pass."""
        self._lookups.after_backward()

    def before_step(self, optimizer):
        """Copy rows before an optimizer steps."""
        self._changes.before_step(optimizer)

    def after_step(self, optimizer):
        """Compare rows after the optimizer has stepped."""
        self._changes.after_step()

    def end_iteration(self):
        """Count a completed iteration, and decide if another one is needed."""
        self._zeros.stop()
        self._lookups.end_iteration()
        self.done += 1
        self.remaining -= 1
        if self.done >= _LEAST and (self._lookups.enough or _clock() > self._deadline):
            self.remaining = 0

    def end(self):
        """The fields of ``skyline.trace.tensor_values.TensorValues``, from complete iterations only."""
        self._zeros.stop()
        told = {"tables": [], "hot": [], "zeros": [], "widths": []}
        try:
            told = self._told(self._lookups.end())
        except Exception as error:
            # An error here must not stop the script.
            self._lookups.problem = f"{type(error).__name__}: {error}"
        return {"iterations": self.done, "after": self._after, "problem": self._lookups.problem, **told}

    def _told(self, accesses):
        told = access_shares(self._tables, accesses, self.done)
        for row, table in zip(told["tables"], self._tables, strict=True):
            row["steady"] = self._changes.rows(table)
        if self._zeros.problem:
            return {**told, "zeros": [], "widths": []}
        return {**told, "zeros": self._zeros.rows(), "widths": self._zeros.width_rows()}


_CLASSES = (torch.nn.Embedding, torch.nn.EmbeddingBag)
LEAST_BYTES = 1 << 20
"""Minimum size of a table: smaller ones fit into any cache."""


class Table:
    """An embedding table; its row numbers start at ``first``. A weight that several modules share is one table.

    ``closed`` is true if the last offset of its bags is the end of the indices.
    """

    __slots__ = ("closed", "first", "padding", "path", "row_bytes", "rows", "weight")

    def __init__(self, path, module, first):
        self.path = path
        self.weight = module.weight
        self.padding = module.padding_idx
        self.closed = bool(getattr(module, "include_last_offset", False))
        self.rows = module.num_embeddings
        self.row_bytes = module.embedding_dim * module.weight.element_size()
        self.first = first

    @property
    def size_bytes(self):
        """Bytes of the whole table."""
        return self.rows * self.row_bytes


def trained_modules(optimizers):
    """Pairs of a path and a module whose weight one of the optimizers trains.

    If several modules of one class share a weight, only the first one is returned.
    """
    trained = {id(parameter) for _, optimizer in optimizers for parameter in parameters_of(optimizer)}
    found = {}
    for path, module in named_modules():
        weight = dict(module._parameters.items()).get("weight")
        if id(weight) in trained:
            found.setdefault((id(weight), type(module)), (path, module))
    return list(found.values())


def large_tables(modules):
    """The large embedding tables among the modules, in order."""
    found, first = [], 0
    for path, module in modules:
        if type(module) not in _CLASSES:
            continue
        if module.num_embeddings * module.embedding_dim * module.weight.element_size() < LEAST_BYTES:
            continue
        found.append(Table(path, module, first))
        first += module.num_embeddings
    return found


_MOST_ROWS = 4096
"""Maximum number of rows of a table that are compared in a step."""
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
        """Copy looked-up rows before an optimizer steps."""
        self._held = []
        self._unless_failed(self._hold, {id(one) for one in parameters_of(optimizer)})

    def after_step(self):
        """Compare the rows after the step."""
        self._unless_failed(self._compare)
        self._held = []

    def _unless_failed(self, work, *given):
        """Do the work, and store an error: weights of some kinds cannot be compared, but the script must go on."""
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
        """Rows of ``skyline.trace.tensor_values.SteadyRows``, by change; empty if there was no step."""
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
