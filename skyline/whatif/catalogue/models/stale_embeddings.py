"""What if rows of embeddings that hardly change were no longer trained."""

from __future__ import annotations

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.trace.tensor_values import TableAccess, steady_at
from skyline.units import format_share, plural
from skyline.whatif.base import (
    Applicability,
    Grain,
    Provenance,
    Scenario,
    Semantics,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.catalogue.memory.hot_embeddings import why_unknown
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.cost.embedding_rows import DENSE_GRADIENTS, dense_rows, updates_of
from skyline.whatif.question import number

_USUAL = Constant.at(1e-3, "the change of a row in a step that counts as none: an assumption")
_LEAST_SHARE = Constant.at(0.02, "values that fewer rows fall below are not offered")
_LATER = "a profile does not show how many rows settle later, or change again"


@dataclass(frozen=True, slots=True)
class StaleEmbeddings(UsualWhatIf):
    """Skips the gradients and updates of rows that a step changes by less than a given share of their norm.

    Slipstream (Maboud and others, 2024) skips rows that have become stale. The answer is a bound: it assumes
    that finding these rows takes no time. It is valid for the profiled point of the training. More rows
    settle later, which a short profile does not show, so the range extends to all rows.
    """

    name: str = "stale_embeddings"
    training_only: bool = True
    semantics: Semantics = Semantics.CONVERGENCE
    stage: Stage = Stage.OPTIMIZER
    excludes: tuple[str, ...] = ("sparse_embedding", "hot_embeddings")

    def title(self, value: str) -> str:
        """The change in a few words."""
        return (
            f"embedding rows that a step changes by at most {value or 'a part'} of their norm are not trained"
        )

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if a run showed rows of large embeddings that its steps hardly change."""
        reason = why_unknown(subject.script)
        if reason:
            return Applicability.no(reason)
        values = subject.script.values
        assert values is not None
        tables = [table for table in values.tables if table.steady]
        if not tables:
            return Applicability.no("no step of an optimizer could be compared")
        changes = [one.change for one in tables[0].steady]
        shares = {change: _row_share(tables, change) for change in changes}
        offered = [change for change in changes if _LEAST_SHARE.value <= shares[change]]
        usual = [change for change in offered if change <= _USUAL.value * (1 + 1e-9)]
        if not usual:
            share = format_share(_row_share(tables, _USUAL.value))
            said = (
                f"only {share} of looked-up rows change by at most {_USUAL.value:g} of their norm in a step"
            )
            return Applicability.no(f"its rows still change at this point of the training: {said}; {_LATER}")
        return Applicability(True, values=tuple(f"{one:g}" for one in offered), default=f"{usual[-1]:g}")

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the computation of gradients, and the updates by sparse gradients; at best all rows have settled."""
        hint = f"Give a part of the norm below 1: {self.name}=0.001."
        change = number(self.name, value, lambda one: 0 < one < 1, hint)
        values = subject.script.values
        assert values is not None
        tables = [table for table in values.tables if table.steady]
        larger = scenario.batch_factor(subject)
        sparse = {one.path for one in subject.script.modules if one.options.get("sparse")}
        likely, least = scenario.graph, scenario.graph
        for table in tables:
            stale = steady_at(table.steady, change)
            is_sparse = table.path in sparse
            looked_up = larger * table.lookups
            gradient, settled = 1 - stale.lookup_share, 0.0
            if not is_sparse:
                every = dense_rows(table.rows, looked_up)
                gradient, settled = (
                    dense_rows(table.rows, moving * looked_up) / every for moving in (gradient, settled)
                )
            update = 1 - stale.row_share if is_sparse else 1.0
            likely = _scaled(subject, likely, table, gradient, update)
            least = _scaled(subject, least, table, settled, 0.0)
        rows, lookups = _row_share(tables, change), _lookup_share(tables, change)
        shares = f"{format_share(rows)} of the rows that an iteration looks up"
        shares = f"{shares}, and {format_share(lookups)} of the lookups"
        seen = f"by {values.basis} at this point of the training"
        seen = seen if values.after is None else f"{seen}, after {plural(values.after, 'other')}"
        return scenario.between(
            subject,
            likely,
            least,
            scenario.graph,
            assumptions=(
                f"{shares}, change by at most {change:g} of their norm, {seen}",
                f"{_LATER}: the range extends from no gain to rows that have all settled",
                "a bound: finding the rows that no longer change takes no time",
            ),
            provenance=Provenance.ASSUMED,
        )


def _row_share(tables: list[TableAccess], change: float) -> float:
    """The share of stale rows among the rows that an iteration looks up in all tables."""
    rows = sum(table.distinct_rows for table in tables)
    stale = sum(table.distinct_rows * steady_at(table.steady, change).row_share for table in tables)
    return stale / rows if rows else 0.0


def _lookup_share(tables: list[TableAccess], change: float) -> float:
    lookups = sum(table.lookups for table in tables)
    stale = sum(table.lookups * steady_at(table.steady, change).lookup_share for table in tables)
    return stale / lookups if lookups else 0.0


def _scaled(subject: Subject, graph: Graph, table: TableAccess, gradient: float, update: float) -> Graph:
    on_gpu = len(_gradients(subject.graph_of(Grain.OPERATORS), table.path, on_gpu=True)) > 0
    graph = scale(graph, _gradients(graph, table.path, on_gpu=on_gpu), gradient)
    if not on_gpu:
        shape = table.rows, int(table.row_bytes / FLOAT_BYTES.value)
        return scale(graph, updates_of(subject, graph, shape), update)
    # The kernels of an update work on many tensors at a time: the table's share follows from its size.
    trained = FLOAT_BYTES.value * sum(fact.parameter_count for fact in subject.script.optimizers)
    part = min(1.0, table.size_bytes / trained) if trained else 0.0
    kernels = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.KERNEL)
    return scale(graph, kernels, 1 - part * (1 - update))


def _gradients(graph: Graph, path: str, *, on_gpu: bool) -> Indices:
    if on_gpu:
        return select(graph, phase=Phase.BACKWARD, layer=path, kind=TaskKind.KERNEL)
    return select(graph, phase=Phase.BACKWARD, layer=path, name=DENSE_GRADIENTS)


WHATIF = StaleEmbeddings()
