"""How long operators take on another number of threads."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.threads import is_split
from skyline.interval import Interval
from skyline.trace.phase import Phase
from skyline.trace.record import Record, Trace
from skyline.whatif.baseline import Baseline

_PART = Interval(0.75, 0.5, 0.95)
"""The part of a split operator that goes faster with the threads. Repeated by itself on two threads a large operator
takes 1/1.9 to 1/1.6 of its time on one, but within a training step, where each core reads what the other one wrote and
results go to fresh memory, steps of networks take 1/1.7 to 1/1.35 (``benchmarks/worker_contention.py``)."""
_BACKWARD_PART = Interval(0.55, 0.3, 0.85)
"""The same of the backward pass of an operator, which does several things, not all of them split."""
_ATTENTION_PART = Interval(0.2, 0.0, 0.7)
"""The same of fused attention: 1/1.2 to 1/0.8 over short sequences."""
_TRAFFIC_PART = Interval(0.5, 0.25, 0.9)
"""The same of operators on tensors larger than the caches, since cores share the way to memory: 1/1.75 to 1/1.3."""
_CACHES_BYTES = 32e6
_COMPUTES_FROM = 8.0
"""Arithmetic per byte from which an operator is held up by arithmetic and not by memory."""
_JOINING_US = 5.0
"""What waking threads for one operator and waiting for the last of them costs: 4 to 8 µs."""


def split_tasks(
    baseline: Baseline, graph: Graph, batch_size: int | None = None
) -> tuple[Indices, tuple[Interval, ...]]:
    """The tasks on the script's thread that are divided among threads, and which part of each.

    In a larger batch more of them are: all but the optimizer's work grows with it.
    """
    recorded = baseline.profile.batch_size
    larger = batch_size / recorded if batch_size and recorded else 1.0
    trace = baseline.profile.trace
    chosen = select(graph, kind=TaskKind.CPU, lane=baseline.lane)
    kept: list[int] = []
    parts: list[Interval] = []
    indices: list[int] = chosen.tolist()
    rows: list[int] = graph.tasks.origin[chosen].tolist()
    for task, row in zip(indices, rows, strict=True):
        if row < 0:
            continue
        record = trace.records[row]
        growth = 1.0 if record.phase is Phase.OPTIMIZER else larger
        if is_split(record, trace, growth):
            kept.append(task)
            parts.append(_part(record, trace))
    return np.array(kept, np.int64), tuple(parts)


def factors(
    parts: tuple[Interval, ...], times_us: Times, before: int, after: int
) -> tuple[Times, Times, Times]:
    """By task, its time on ``after`` threads over that on ``before``: likely, at least, at most (Amdahl, 1967)."""
    columns = [np.array([getattr(one, name) for one in parts]) for name in ("value", "low", "high")]
    likely, first, second = (_factor(part, times_us, before, after) for part in columns)
    return likely, np.minimum(first, second), np.maximum(first, second)


def _factor(part: Times, times_us: Times, before: int, after: int) -> Times:
    joined_us = np.minimum(_JOINING_US * (before > 1), 0.5 * times_us)
    alone_us = (times_us - joined_us) / (1 - part + part / before)
    then_us = alone_us * (1 - part + part / after) + _JOINING_US * (after > 1)
    return then_us / np.maximum(times_us, 1e-3)


def _part(record: Record, trace: Trace) -> Interval:
    shape = trace.shapes[record.shape] if record.shape >= 0 else None
    flops = max(record.flops, shape.flops if shape is not None else 0)
    moved = shape.bytes_moved if shape is not None else 0
    if "attention" in record.name.lower():
        return _ATTENTION_PART
    if moved > _CACHES_BYTES and flops < _COMPUTES_FROM * moved:
        return _TRAFFIC_PART
    return _BACKWARD_PART if "Backward" in record.name or "backward" in record.name else _PART
