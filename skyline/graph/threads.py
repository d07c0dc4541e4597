"""Division of the CPU time between single-threaded and multi-threaded operators."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from skyline.graph.build import main_lane
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape, Record, RecordKind, Trace

_SPLIT_FROM_US = 60.0
"""Without known shapes, operators shorter than this, in µs, count as too small to split."""
_GRAIN = 32_768
"""Number of elements from which PyTorch splits a pointwise operator (``at::internal::GRAIN_SIZE``)."""
_PRODUCT_FLOPS = 1e6
"""Number of operations from which libraries split a matrix product; smaller ones end before threads wake up."""
_ONE_BY_ONE = (
    "sort", "unique", "nonzero", "masked_select", "randperm", "multinomial", "normal_", "uniform_", "random_",
    "exponential_", "aten::randn", "aten::rand", "index_put", "aten::item", "topk", "dropout", "bernoulli",
)  # fmt: skip
"""Operators that run on one CPU thread at any size."""
SPIN_US = 4000.0
"""Time, in µs, that idle threads spin for the next split operator before they sleep: 300,000 turns of the loop in
GNU OpenMP, unless ``OMP_WAIT_POLICY`` sets another number; measured as 4.0 ms."""


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """Shares of the time of the script's own thread without loading; they sum to 1 if there is any work.

    ``watched`` is single-threaded work so soon after a split operator that the other threads still spin and occupy
    their cores. ``alone`` is all other single-threaded work.
    """

    split: float
    watched: float
    alone: float


def thread_use(trace: Trace) -> ThreadUse:
    """The thread use of the recorded iterations."""
    lane = main_lane(trace)
    split = watched = alone = 0.0
    since_us = SPIN_US
    for record in sorted((one for one in trace.records if one.lane == lane), key=lambda one: one.start_us):
        if record.kind is RecordKind.DATA:
            since_us += record.duration_us
        elif is_split(record, trace):
            split, since_us = split + record.duration_us, 0.0
        else:
            seen = min(record.duration_us, max(0.0, SPIN_US - since_us))
            watched, alone = watched + seen, alone + record.duration_us - seen
            since_us += record.duration_us
    total = split + watched + alone
    return ThreadUse(split / total, watched / total, alone / total) if total else ThreadUse(0.0, 0.0, 0.0)


def is_split(record: Record, trace: Trace, larger: float = 1.0) -> bool:
    """True if an operator is large enough, and of a kind, to be split among threads.

    ``larger`` is the size of the work relative to the recording, for a batch of another size.
    """
    if record.kind is not RecordKind.OPERATOR or _runs_one_by_one(record.name):
        return False
    flops = record.flops
    if record.shape >= 0:
        shape = trace.shapes[record.shape]
        flops = max(flops, shape.flops)
        if not flops:
            return _in_large_tensors(shape, _GRAIN / larger) >= 0.5
    return flops * larger >= _PRODUCT_FLOPS if flops else record.duration_us * larger >= _SPLIT_FROM_US


@lru_cache(maxsize=1 << 12)
def _runs_one_by_one(name: str) -> bool:
    return any(part in name for part in _ONE_BY_ONE)


def _in_large_tensors(shape: OperatorShape, grain: float) -> float:
    """The share of all elements in tensors large enough to split: an operator over many tensors splits each tensor."""
    sizes = [prod(one) for one in shape.outputs or shape.inputs]
    if len(sizes) <= 1:
        sizes = [max((prod(one) for one in (*shape.inputs, *shape.outputs)), default=0)]
    return sum(size for size in sizes if size >= grain) / max(1, sum(sizes))
