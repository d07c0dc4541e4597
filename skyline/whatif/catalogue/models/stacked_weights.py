"""Costs of the weights of several models stacked in one tensor, on a CPU: gradients, memory and update."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.threads import is_split
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.constant import EPYC, FLOAT_BYTES, Constant
from skyline.whatif.cost.large_blocks import go_back, kept_gradients
from skyline.whatif.cost.thread_scaling import PLAIN_PART, gained, threads_of, tried_products
from skyline.whatif.subject import Subject, shapes

TURNED_NS = Constant(
    0.8, 0.3, 3.8,
    "benchmarks/batched_operators.py: one thread turns a stack of matrices, per number; most where rows are a large "
    "power of two",
    machine=EPYC,
)  # fmt: skip
_SPLIT_FROM = Constant.at(32_768, "numbers from which PyTorch divides a copy (``at::internal::GRAIN_SIZE``)")
FREED_BEFORE = Constant.at(
    0.94e6,
    "benchmarks/stacked_weights.py: glibc's M_MMAP_THRESHOLD in a process that has imported PyTorch: so large a block "
    "was freed meanwhile",
    machine=EPYC,
)
_FRESH = ("aten::sqrt", "aten::div")
"""Operators of a tensor-by-tensor update that write to newly allocated memory."""
UPDATE_BYTES_PER_US = Constant(
    40e3, 15e3, 120e3,
    "benchmarks/stacked_weights.py: bytes of the arguments of Adam's operators together, for further numbers that lie "
    "in a cache: 84 to 120 GB/s. An assumption: half of it in a script, whose passes use the caches meanwhile",
    machine=EPYC,
)  # fmt: skip
_SMALL_US = Constant.at(60.0, "an assumption: a longer operator of an update is no longer mostly its call")


def by_model(subject: Subject, graph: Graph, products: Indices, jobs: int) -> Times:
    """The ratio of each product's time for several models at once to that one after the other, by its threads.

    The threads of a single product wait for the last of them each time. The threads of a stack of products
    compute whole products each.
    """
    threads = threads_of(subject)
    turns = -(-jobs // threads) * threads / jobs
    found = np.ones(len(products))
    if threads < 2:
        return found
    tried = tried_products(subject, graph, products)
    for place, (task, trial) in enumerate(zip(products.tolist(), tried, strict=True)):
        row = int(graph.tasks.origin[task])
        if row < 0 or not is_split(subject.script.trace.records[row], subject.script.trace):
            continue
        part = trial[0].divided_part(trial[1], narrow=False) if trial is not None else None
        known = PLAIN_PART.value if part is None else min(1.0, max(PLAIN_PART.low, part))
        found[place] = turns / threads / gained(known, threads)
    return np.minimum(1.0, found)


def turned_us(subject: Subject, graph: Graph, jobs: int, case: str) -> Times:
    """The time by task to transpose the gradients of ``jobs`` models into the layout of their weights, in µs.

    A linear layer multiplies by its transposed weight. Its own backward pass computes the gradient in the
    layout of the weight. The product of a stack of matrices computes it transposed, and autograd copies it
    once in each backward pass: at the last task of the layer.
    """
    added = np.zeros(len(graph))
    for path, numbers in _linear(subject).items():
        each_us = jobs * numbers * getattr(TURNED_NS, case) / 1e3
        if jobs * numbers >= _SPLIT_FROM.value:
            each_us *= gained(PLAIN_PART.value, threads_of(subject))
        added[_lasts(subject, graph, layer=path)] += each_us
    return added


def provided_us(subject: Subject, graph: Graph, jobs: int) -> Times:
    """The system's time by task, in µs, for memory that is returned to it with several models but not with one.

    The gradients of ``jobs`` models are ``jobs`` times as large; their cost is at the last task of the
    backward pass. The same applies to the two results that an update such as Adam's computes for the largest
    weight before it frees them.
    """
    added = np.zeros(len(graph))
    allocations = subject.script.trace.allocations
    us_per_byte = subject.script.large_block_us_per_mb / 1e6
    gradients = kept_gradients(allocations)
    passing = [one.size_bytes for one in allocations if one.phase in (Phase.FORWARD, Phase.BACKWARD)]

    def only_together(freed: Sequence[float]) -> bool:
        now, then = (
            go_back(
                [many * one for one in freed],
                [*(many * one for one in passing), FREED_BEFORE.value],
            )
            for many in (1, jobs)
        )
        return then and not now

    if only_together(gradients):
        added[_lasts(subject, graph)] += us_per_byte * jobs * sum(gradients)
    updating = select(graph, kind=TaskKind.CPU, phase=Phase.OPTIMIZER, lane=subject.lane)
    for task, shape in zip(updating.tolist(), shapes(subject, graph, updating), strict=True):
        if shape is not None and shape.operator in _FRESH and shape.inputs:
            made = FLOAT_BYTES.value * prod(shape.inputs[0])
            if only_together((made, made)):
                added[task] += us_per_byte * jobs * made
    return added


def updated_us(subject: Subject, graph: Graph, jobs: int, case: str) -> Times:
    """The least time by task of an update operator for ``jobs`` models, in µs; 0 for other tasks.

    The recorded times of small operators are mostly calls, and do not show their bytes. The bytes of each
    further model take at least the time in which all threads move them.
    """
    least = np.zeros(len(graph))
    chosen = select(graph, kind=TaskKind.CPU, phase=Phase.OPTIMIZER, lane=subject.lane)
    rate = {
        "value": UPDATE_BYTES_PER_US.value,
        "low": UPDATE_BYTES_PER_US.high,
        "high": UPDATE_BYTES_PER_US.low,
    }
    moved = np.array([_given_bytes(one) for one in shapes(subject, graph, chosen)])
    now_us = graph.durations[chosen]
    small = (moved > 0) & (now_us < _SMALL_US.value)
    least[chosen] = np.where(small, now_us + (jobs - 1) * moved / rate[case], 0.0)
    return least


def _given_bytes(shape: OperatorShape | None) -> float:
    if shape is None:
        return 0.0
    return FLOAT_BYTES.value * sum(prod(one) for one in shape.inputs if one)


def _linear(subject: Subject) -> dict[str, int]:
    """The number of weight elements of each trainable linear layer with its own weight, by path."""
    return {
        module.path: inputs * outputs
        for module in subject.script.modules
        if module.class_name == "Linear"
        and module.library
        and module.trainable
        and isinstance(inputs := module.options.get("in_features"), int)
        and isinstance(outputs := module.options.get("out_features"), int)
        and module.parameter_count >= inputs * outputs
    }


def _lasts(subject: Subject, graph: Graph, layer: str | None = None) -> list[int]:
    """The last task of each backward pass, of a layer or of all."""
    own = select(graph, kind=TaskKind.CPU, phase=Phase.BACKWARD, layer=layer, lane=subject.lane)
    last = {int(graph.tasks.iteration[task]): task for task in own.tolist()}
    return list(last.values())
