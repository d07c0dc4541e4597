"""How long operators take on another number of threads."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.threads import is_split
from skyline.interval import Interval
from skyline.trace.record import Record, Trace
from skyline.whatif.baseline import Baseline

_PRODUCTS = Interval(0.9, 0.7, 1.0)
"""The part of a large product, convolution or attention that goes faster with the threads; matrices of 900 x 900 took
1.8 to 1.9 times as long on one thread as on two (``benchmarks/worker_contention.py``)."""
_TRAFFIC = Interval(0.5, 0.2, 0.9)
"""The same of operators that move more than they compute: cores share the way to memory, and one core alone takes
much of it. 1.3 times as long on one thread as on two where tensors are larger than the caches, 1.7 in them."""
_COMPUTES_FROM = 8.0
"""Arithmetic per byte from which an operator is held up by arithmetic and not by memory."""


def split_tasks(baseline: Baseline, graph: Graph) -> tuple[Indices, tuple[Interval, ...]]:
    """The tasks on the script's thread that are divided among threads, and which part of each."""
    trace = baseline.profile.trace
    chosen = select(graph, kind=TaskKind.CPU, lane=baseline.lane)
    kept: list[int] = []
    parts: list[Interval] = []
    for task, row in zip(chosen.tolist(), graph.tasks.origin[chosen].tolist(), strict=True):
        if row >= 0 and is_split(trace.records[row], trace):
            kept.append(task)
            parts.append(_part(trace.records[row], trace))
    return np.array(kept, np.int64), tuple(parts)


def factors(parts: tuple[Interval, ...], before: int, after: int) -> tuple[Times, Times, Times]:
    """By task, its time on ``after`` threads over that on ``before``: likely, at least, at most (Amdahl, 1967)."""
    columns = [np.array([getattr(one, name) for one in parts]) for name in ("value", "low", "high")]
    likely, first, second = ((1 - part + part / after) / (1 - part + part / before) for part in columns)
    return likely, np.minimum(first, second), np.maximum(first, second)


def _part(record: Record, trace: Trace) -> Interval:
    shape = trace.shapes[record.shape] if record.shape >= 0 else None
    flops = max(record.flops, shape.flops if shape is not None else 0)
    moved = shape.bytes_moved if shape is not None else 0
    if flops and (not moved or flops >= _COMPUTES_FROM * moved):
        return _PRODUCTS
    return _TRAFFIC if shape is not None or flops else Interval(0.7, _TRAFFIC.low, _PRODUCTS.high)
