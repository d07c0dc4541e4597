"""How much of the computing is spread over several threads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from skyline.graph.build import main_lane
from skyline.trace.record import Record, RecordKind, Trace
from skyline.trace.shape import OperatorShape

_SPLIT_FROM_US = 60.0
"""Where shapes are not known: operators shorter than this are taken to lie below the grain."""
_GRAIN = 32_768
"""Elements from which PyTorch splits an operator that goes through them (``at::internal::GRAIN_SIZE``)."""
_PRODUCT_FLOPS = 1e6
"""Arithmetic from which libraries split a product; smaller ones are over sooner than threads are woken."""
_ONE_BY_ONE = (
    "sort", "unique", "nonzero", "masked_select", "randperm", "multinomial", "normal_", "uniform_", "random_",
    "exponential_", "aten::randn", "aten::rand", "index_put", "aten::item", "topk", "dropout", "bernoulli",
)  # fmt: skip
"""Operators that one thread carries out on a CPU, whatever their size."""
SPIN_US = 4000.0
"""For how long the other threads look out for the next split operator, at full speed, before they sleep: 300,000
turns of the loop in GNU's OpenMP, unless ``OMP_WAIT_POLICY`` says otherwise; 4.0 ms as measured."""


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """Shares of the time of the script's own thread, loading apart; they sum to 1 where there is any work.

    ``watched`` is work on one thread so soon after a split operator that the other threads still look out for the
    next one and keep their cores busy; ``alone`` is all other work.
    """

    split: float
    watched: float
    alone: float


def thread_use(trace: Trace) -> ThreadUse:
    """What the recorded iterations did on how many threads."""
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
    """Whether an operator's work is large enough, and of a kind, to be divided among threads.

    ``larger`` is how many times as large the work would be as it was recorded, in a batch of another size.
    """
    if record.kind is not RecordKind.OPERATOR or any(name in record.name for name in _ONE_BY_ONE):
        return False
    flops = record.flops
    if record.shape >= 0:
        shape = trace.shapes[record.shape]
        flops = max(flops, shape.flops)
        if not flops:
            return _in_large_tensors(shape, _GRAIN / larger) >= 0.5
    return flops * larger >= _PRODUCT_FLOPS if flops else record.duration_us * larger >= _SPLIT_FROM_US


def _in_large_tensors(shape: OperatorShape, grain: float) -> float:
    """The share of all elements that are in tensors worth splitting: an operator over many tensors splits each."""
    sizes = [prod(one) for one in shape.outputs or shape.inputs]
    if len(sizes) <= 1:
        sizes = [max((prod(one) for one in (*shape.inputs, *shape.outputs)), default=0)]
    return sum(size for size in sizes if size >= grain) / max(1, sum(sizes))
