"""What if the gradients of embeddings held only the rows that the batch looked up."""

from __future__ import annotations

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import ALL_BUT_LOADING
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import OptimizerFact
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.cost.embedding_rows import (
    DENSE_GRADIENTS,
    SPARSE_STEPS,
    Table,
    backward_share,
    is_shared,
    is_table,
    sparse_step_us,
    sparse_tables,
    tables,
    updates_of,
)
from skyline.whatif.cost.optimizer_step import update_of
from skyline.whatif.cost.streaming import relieved
from skyline.whatif.memory import Memory

_GRADIENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class SparseEmbedding(UsualWhatIf):
    """Scales the work on whole tables to the work on the rows that a batch touches."""

    name: str = "sparse_embedding"
    training_only: bool = True
    words: str = "sparse gradients of embeddings (sparse=True)"
    stage: Stage = Stage.OPTIMIZER
    excludes: tuple[str, ...] = ("fused_optimizer", "ddp_bucket", "ddp_compression")

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if plain SGD or Adagrad updates large tables of which a batch touches few rows."""
        profile = subject.script
        if not profile.modules:
            return Applicability.no("the layers of the model are not known; profile it again")
        trained = [module for module in profile.modules if is_table(module)]
        if not trained:
            return Applicability.no("the model trains no embedding")
        if all(module.options.get("sparse") for module in trained):
            return Applicability.no("the gradients of its embeddings are sparse already")
        reason = _why_not_sparse(subject)
        if reason:
            return Applicability.no(reason)
        candidates = tables(profile)
        if not candidates:
            return Applicability.no("PyTorch has no sparse gradients for these embeddings")
        few = [table for table in candidates if table.pays]
        if not few:
            return Applicability.no(_touches_too_much(candidates))
        if all(is_shared(profile, table) for table in few):
            return Applicability.no("the output layer shares the embedding's weight: its gradient is dense")
        if subject.phases.optimizer <= 0:
            return Applicability.no("the optimizer step takes no measurable time")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the backward pass and the update to the touched rows."""
        if value.lower() not in ("", "true", "1", "yes", "on"):
            raise UsageError(
                f"{self.name}={value} is not possible", hint=f"Give the name without a value: {self.name}."
            )
        chosen = sparse_tables(subject.script, scenario.batch_factor(subject))
        optimizer = subject.script.optimizers[0]
        saved = sum(table.saved_bytes for table in chosen)
        update = update_of(optimizer)
        less = saved / _GRADIENT_BYTES * update.unfused_bytes if update is not None else 0.0
        cases = (
            relieved(subject, _changed(subject, scenario.graph, chosen, optimizer, end), less, end=gain)
            for end, gain in enumerate(("value", "high", "low"))
        )
        touched = sum(table.touched for table in chosen)
        rows = sum(table.rows for table in chosen)
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                f"at most {touched:,.0f} of {rows:,} rows are touched: one for each index, if no index repeats",
                "the optimizer has no weight decay, which moves rows that the batch does not touch",
            ),
            memory=lambda memory: _memory(memory, saved),
        )


def sparse_work(baseline: Subject, graph: Graph, larger: float) -> Indices:
    """The tasks that remain for touched rows, on one thread: indices are sorted, rows are found and added up."""
    found = [
        updates_of(baseline, graph, shape)
        for shape in {table.shape for table in sparse_tables(baseline.script, larger)}
    ]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _memory(memory: Memory, saved: float) -> Memory:
    """The memory without the dense gradients, and without the temporary memory of a step over whole tables."""
    return memory.changed(lambda levels: levels.without_gradients(saved).with_step(0.0))


def _why_not_sparse(baseline: Subject) -> str:
    profile = baseline.script
    if not profile.optimizers:
        return "no PyTorch optimizer takes the step"
    for optimizer in profile.optimizers:
        if optimizer.name not in SPARSE_STEPS:
            lazily = optimizer.name in ("Adam", "AdamW")
            also = (
                "; SparseAdam does, and trains differently: other rows keep their moments" if lazily else ""
            )
            return f"{optimizer.name} takes no sparse gradients{also}"
        if optimizer.name == "SGD" and optimizer.state_bytes:
            return "SGD with momentum moves all rows in every step"
        if optimizer.options.get("fused"):
            return "a fused step takes no sparse gradients"
    if len(profile.optimizers) > 1:
        return "it is not known which of several optimizers updates the embedding"
    if any(call.name in ("clip_grad_norm_", "clip_grad_value_") for call in profile.calls):
        return "the gradients are clipped, which PyTorch does not do with sparse ones"
    if profile.parallel is not None:
        return "replicas join their gradients: PyTorch does so with sparse ones over gloo only, whole tables over NCCL"
    return ""


def _touches_too_much(candidates: tuple[Table, ...]) -> str:
    if not any(table.touched for table in candidates):
        return "the number of rows that a batch looks up was not recorded"
    largest = max(candidates, key=lambda table: table.rows)
    return f"a batch looks up {largest.touched:,.0f} of {largest.rows:,} rows: too many to gain"


def _changed(
    baseline: Subject, graph: Graph, chosen: tuple[Table, ...], optimizer: OptimizerFact, end: int
) -> Graph:
    """The graph with sparse gradients; ``end`` is 0 for the likely, 1 for the best and 2 for the worst case."""
    backward = {table.module.path: backward_share(table) for table in chosen}
    for path, share in backward.items():
        made = select(graph, phase=Phase.BACKWARD, layer=path, name=DENSE_GRADIENTS)
        graph = scale(graph, made, share)
    step = SPARSE_STEPS[optimizer.name]
    for shape in {table.shape for table in chosen}:
        alike = [table for table in chosen if table.shape == shape]
        found = updates_of(baseline, graph, shape)
        if not len(found):
            continue
        dense_us = float(graph.durations[found].sum()) / baseline.steps
        of_one = dense_us / _tensors_of(baseline, shape)
        if of_one > 0:
            after = [sparse_step_us(table, step, of_one) for table in alike]
            us = sum(one.ends[end] for one in after)
            graph = scale(graph, found, max(0.0, 1 + (us - of_one * len(alike)) / dense_us))
    if any(len(updates_of(baseline, baseline.operators, table.shape)) for table in chosen):
        return graph
    # The step updates many tensors at a time: its time is divided among them by size.
    whole = max(1, optimizer.parameter_count)
    step_us = _optimizer_us(baseline, graph)
    if step_us <= 0:
        return graph
    less = sum(
        step_us * table.rows * table.width / whole
        - sparse_step_us(table, step, step_us * table.rows * table.width / whole).ends[end]
        for table in chosen
    )
    within = select(graph, phase=Phase.OPTIMIZER, kind=ALL_BUT_LOADING)
    return scale(graph, within, max(0.0, 1 - less / step_us))


def _tensors_of(baseline: Subject, shape: tuple[int, int]) -> int:
    """The number of parameters of this shape."""
    alike = [
        one
        for one in baseline.script.modules
        if shape
        in (
            (one.options.get("num_embeddings"), one.options.get("embedding_dim")),
            (one.options.get("out_features"), one.options.get("in_features")),
        )
        and one.parameter_count
    ]
    return max(1, len(alike))


def _optimizer_us(baseline: Subject, graph: Graph) -> float:
    within = select(graph, phase=Phase.OPTIMIZER, kind=ALL_BUT_LOADING)
    return float(np.asarray(graph.durations[within]).sum()) / baseline.steps


WHATIF = SparseEmbedding()
