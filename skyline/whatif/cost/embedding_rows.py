"""Embedding tables with dense gradients, and the few rows of them that a batch touches."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile
from skyline.trace.record import Phase, Trace
from skyline.whatif.subject import Subject, shapes

_CLASSES = ("Embedding", "EmbeddingBag")
LOOKUPS = ("aten::embedding", "aten::embedding_bag", "aten::_embedding_bag")
DENSE_GRADIENTS = (
    "EmbeddingBackward0",
    "EmbeddingBagBackward0",
    "embedding_dense_backward",
    "embedding_bag_backward",
)
_WORTH_IT = 0.5
"""If a batch touches a larger share of a table, sparse gradients gain nothing: sorting and copying rows costs
as much."""
_VALUE_BYTES = 4
_INDEX_BYTES = 8


@dataclass(frozen=True, slots=True)
class SparseStep:
    """The cost of an update of touched rows, compared with the dense one.

    ``traffic`` is the ratio of the time per number to that of the dense update. ``row_us`` is the time to
    find a row: indices are sorted to add up rows that a batch touches twice. ``calls_us`` is the time of
    Python and the calls, per table.
    """

    traffic: Interval
    row_us: float
    calls_us: float


SPARSE_STEPS = {
    "SGD": SparseStep(Interval(2.0, 0.5, 4.0), 0.06, 20.0),
    "Adagrad": SparseStep(Interval(1.0, 0.4, 3.0), 0.25, 120.0),
}
"""The optimizers of PyTorch that accept sparse gradients; times from ``benchmarks/sparse_steps.py``."""


@dataclass(frozen=True, slots=True)
class Table:
    """An embedding with dense gradients and ``rows`` rows of ``width`` numbers.

    ``touched`` is the number of indices that an iteration looks up, an upper limit for the rows that it
    touches.
    """

    module: ModuleFact
    rows: int
    width: int
    touched: float

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of its weight and of its dense gradient."""
        return self.rows, self.width

    @property
    def pays(self) -> bool:
        """True if few enough rows are touched."""
        return 0 < self.touched < _WORTH_IT * self.rows

    @property
    def saved_bytes(self) -> float:
        """The number of bytes by which a sparse gradient is smaller than the dense one."""
        return _VALUE_BYTES * self.width * (self.rows - self.touched) - _INDEX_BYTES * self.touched


def tables(profile: Profile) -> tuple[Table, ...]:
    """The embeddings of the model with dense gradients that could have sparse ones."""
    looked_up = _indices_by_module(profile.trace)
    found: list[Table] = []
    for module in profile.modules:
        rows, width = module.options.get("num_embeddings"), module.options.get("embedding_dim")
        known = isinstance(rows, int) and isinstance(width, int)
        if not known or not is_table(module) or module.options.get("sparse"):
            continue
        # PyTorch makes no sparse gradients for these.
        if module.options.get("scale_grad_by_freq") or module.options.get("mode") == "max":
            continue
        assert isinstance(rows, int)
        assert isinstance(width, int)
        found.append(Table(module, rows, width, looked_up.get(module.path, 0.0)))
    return tuple(found)


def sparse_tables(profile: Profile, larger: float = 1.0) -> tuple[Table, ...]:
    """The embeddings that gain by sparse gradients, with the lookups of a batch ``larger`` times as large."""
    return tuple(
        replace(table, touched=larger * table.touched)
        for table in tables(profile)
        if table.pays and not is_shared(profile, table)
    )


def is_table(module: ModuleFact) -> bool:
    """True if this is a trainable embedding of PyTorch."""
    return module.class_name in _CLASSES and module.library and module.trainable


def is_shared(profile: Profile, table: Table) -> bool:
    """True if an output layer, whose gradient is dense, shares the weight."""
    modules = profile.modules
    outputs = [
        one
        for one in modules
        if (one.options.get("out_features"), one.options.get("in_features")) == table.shape
    ]
    alike = [one for one in modules if is_table(one) and _shape_of(one) == table.shape]
    if not outputs:
        return False
    arrived = _arrivals(profile, table.shape)
    # Each parameter's gradient is accumulated once, however many layers use it.
    return arrived < len(outputs) + len(alike) if arrived else any(not one.parameter_count for one in outputs)


def sparse_step_us(table: Table, step: SparseStep, dense_us: float) -> Interval:
    """The time of one update of the touched rows, in µs; ``dense_us`` is the present time for the whole table."""
    moving_us = dense_us * table.touched / table.rows
    fixed_us = step.calls_us + step.row_us * table.touched
    return Interval(
        fixed_us + moving_us * step.traffic.value,
        0.4 * fixed_us + moving_us * step.traffic.low,
        3.0 * fixed_us + moving_us * step.traffic.high,
    )


def backward_share(table: Table) -> float:
    """The share of the cost of making the gradient that remains: rows are written once, and no table is cleared."""
    return 2 * table.touched / dense_rows(table.rows, table.touched)


def cleared_shares(profile: Profile, graph: Graph) -> Times:
    """The share of each task's time that clears the whole table for a gradient, whatever the batch looks up; else 0."""
    shares = np.zeros(len(graph))
    for table in tables(profile):
        made = select(graph, phase=Phase.BACKWARD, layer=table.module.path, name=DENSE_GRADIENTS)
        shares[made] = table.rows / dense_rows(table.rows, table.touched)
    return shares


def dense_rows(rows: float, touched: float) -> float:
    """Rows written and read to make a dense gradient: all are cleared, touched ones are found and added to."""
    return rows + 3 * touched


def updates_of(subject: Subject, graph: Graph, shape: tuple[int, int]) -> Indices:
    """The optimizer's operators on tensors of this shape."""
    chosen = select(graph, phase=Phase.OPTIMIZER, on_gpu=False)
    called = shapes(subject, graph, chosen)
    wanted = [one is not None and bool(one.inputs) and one.inputs[0] == shape for one in called]
    return chosen[np.array(wanted, np.bool_)]


def _shape_of(module: ModuleFact) -> tuple[object, object]:
    return module.options.get("num_embeddings"), module.options.get("embedding_dim")


def _arrivals(profile: Profile, shape: tuple[int, int]) -> int:
    """The number of recorded gradients of this shape in an iteration."""
    trace = profile.trace
    found = sum(
        record.name.endswith("AccumulateGrad")
        and record.shape >= 0
        and trace.shapes[record.shape].inputs[:1] == (shape,)
        for record in trace.records
    )
    return round(found / max(1, len(trace.iterations)))


def _indices_by_module(trace: Trace) -> dict[str, float]:
    """The number of indices that each module looks up in an iteration, by module path."""
    found: dict[str, float] = {}
    for record in trace.records:
        if record.name not in LOOKUPS or record.shape < 0 or record.module < 0:
            continue
        inputs = trace.shapes[record.shape].inputs
        if len(inputs) > 1:
            path = trace.modules[record.module]
            found[path] = found.get(path, 0.0) + prod(inputs[1]) / max(1, len(trace.iterations))
    return found
