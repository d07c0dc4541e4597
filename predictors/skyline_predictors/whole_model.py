"""Whole models from their operator graphs: the kernels of each node, timed by a predictor and summed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorPredictor, OperatorTime
from skyline.trace.record import OperatorShape
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.node_operators import NodeWork, call_name, node_work, pointwise
from skyline_predictors.operator_graph import GraphNode, Size, graph_nodes

CALL_US = HostCost().launch_us
"""Host time until the first kernel of a node is launched. Timing a node alone adds it to its kernels."""
_SEVERAL_GPUS = ("-dp", "-tp", "-pp")


@dataclass(frozen=True, slots=True)
class ModelTime:
    """One run of a model in ms: both phases together with the interval, and each phase alone."""

    whole: Interval
    forward_ms: float
    backward_ms: float


@dataclass(frozen=True, slots=True)
class NodeTime:
    """One run of a node in ms, as measured when the node is timed alone."""

    number: int
    forward_ms: float
    backward_ms: float


def is_training(graph: str) -> bool:
    """True for the graph of a training step."""
    return "-train-" in graph


def model_time(graph: str, gpu: str, folder: Path, predictor: OperatorPredictor) -> ModelTime:
    """The time of a whole model on a GPU.

    The GPU runs one kernel after the other with a short gap between them. If launching the kernels takes
    longer than running them, the time of launching counts.

    Raises:
        UsageError: the graph is not in the folder, or is for several GPUs.
    """
    if any(mark in graph for mark in _SEVERAL_GPUS):
        raise UsageError(
            f"{graph} runs on several GPUs, whose communication is not predicted",
            hint="Ask for a graph of one GPU.",
        )
    device = gpu_of(gpu, folder)
    works = _works(graph, folder, recorded=False)
    forward: Counter[OperatorShape] = Counter()
    backward: Counter[OperatorShape] = Counter()
    host = HostCost()
    forward_host = 0.0
    for node, work in works:
        for shape in work.forward:
            forward[shape] += round(node.repeat)
        for shape in (*work.backward, *work.accumulate):
            backward[shape] += round(node.repeat)
        forward_host += node.repeat * (host.operator_us + host.launch_us * len(work.forward))
    times = _times((*forward, *backward), predictor, device)
    forward_us = max(_sum_us(forward, times, host), forward_host if forward else 0.0)
    backward_us = max(_sum_us(backward, times, host), host.launch_us * sum(backward.values()))
    value = forward_us + backward_us
    below, above = _apart(forward + backward, times)
    whole = Interval(value, max(0.0, value - below), value + above).scaled(1e-3)
    return ModelTime(whole, forward_us / 1e3, backward_us / 1e3)


def node_times(graph: str, gpu: str, folder: Path, predictor: OperatorPredictor) -> list[NodeTime]:
    """The time of each node alone, as measured data have it."""
    works = _works(graph, folder, recorded=True)
    asked = {shape for _, work in works for shape in (*work.forward, *work.backward)}
    times = _times(asked, predictor, gpu_of(gpu, folder))

    def alone(shapes: Iterable[OperatorShape]) -> float:
        values = [times[shape].time_us.value for shape in shapes]
        return (CALL_US + sum(values)) / 1e3 if values else 0.0

    return [NodeTime(node.number, alone(work.forward), alone(work.backward)) for node, work in works]


def _works(graph: str, folder: Path, *, recorded: bool) -> list[tuple[GraphNode, NodeWork]]:
    training = is_training(graph)
    nodes = graph_nodes(graph, folder)
    copies = operand_copies(nodes)
    inside = run_inside_the_next(nodes)
    # Nodes that are timed one by one have no gradients to add up, and no earlier node takes their gradients.
    sums = gradient_sums(nodes) if training and not recorded else {}
    found: list[tuple[GraphNode, NodeWork]] = []
    for node in nodes:
        if node.number in inside:
            continue
        try:
            work = node_work(node, training=training, recorded=recorded)
        except (KeyError, IndexError, ValueError, OverflowError) as error:
            raise UsageError(
                f"node {node.number} of {graph} cannot be read: {type(error).__name__} {error}",
                hint="Its operators need the sizes that the data's README lists.",
            ) from None
        copied = copies.get(node.number, ())
        backward = (*work.backward, *sums.get(node.number, ()))
        if training and not recorded:
            backward = (*backward, *copied)
        found.append((node, NodeWork((*work.forward, *copied), backward, work.accumulate)))
    return found


def _times(
    shapes: Iterable[OperatorShape], predictor: OperatorPredictor, device: GpuSpec
) -> dict[OperatorShape, OperatorTime]:
    asked = list(dict.fromkeys(shapes))
    return dict(zip(asked, predictor.predict(asked, device), strict=True))


def _sum_us(
    counts: Counter[OperatorShape], times: dict[OperatorShape, OperatorTime], host: HostCost
) -> float:
    return sum(count * (times[shape].time_us.value + host.turnaround_us) for shape, count in counts.items())


def _apart(counts: Counter[OperatorShape], times: dict[OperatorShape, OperatorTime]) -> tuple[float, float]:
    """Distances from the value to the ends of the interval: added within a group, combined in squares across groups."""
    below: dict[str, float] = defaultdict(float)
    above: dict[str, float] = defaultdict(float)
    for shape, count in counts.items():
        time = times[shape]
        below[time.group] += count * (time.time_us.value - time.time_us.low)
        above[time.group] += count * (time.time_us.high - time.time_us.value)
    return (
        sum(one**2 for one in below.values()) ** 0.5,
        sum(one**2 for one in above.values()) ** 0.5,
    )


_REORDER = frozenset({"permute", "transpose"})
_NEW_VALUES = frozenset(
    {"VECln", "VECadd", "VECmul", "VECgelu", "VECrelu", "dropout", "contiguous", "misc", "EMBEDDING"}
)
Kernels = dict[int, tuple[OperatorShape, ...]]
"""Kernels by the number of their node."""


def run_inside_the_next(nodes: Sequence[GraphNode]) -> frozenset[int]:
    """Nodes of a compiled graph that share a kernel with the next node: tensors of one size that are only passed on.

    The graph fuses consecutive calls. A compiler also fuses a mask, or a scale, with the softmax after it.
    """
    if not any(node.kind == "fused" for node in nodes):
        return frozenset()
    launching = [node for node in nodes if node_work(node, training=False).forward]
    return frozenset(
        one.number
        for one, following in pairwise(launching)
        if one.kind in _JOINABLE
        and following.kind in _JOINABLE
        and one.output == following.output
        and one.output in following.inputs
    )


_JOINABLE = frozenset({"fused", "where"})


def operand_copies(nodes: Sequence[GraphNode]) -> Kernels:
    """Copies of operands of products with four or more dimensions, which have to be contiguous.

    Operands from a permutation are copied forward for the product. They are copied backward too, when their
    gradients pass through the permutation.
    """
    reordered: dict[Size, bool] = {}
    found: Kernels = {}
    for node in nodes:
        if node.kind == "BMM":
            operands = [size for size in node.inputs if len(size) > 3 and reordered.get(size)]
            found[node.number] = tuple(pointwise("clone", (size,), size) for size in operands)
        if prod(node.output) > 1:
            reordered[node.output] = call_name(node) in _REORDER
    return found


def gradient_sums(nodes: Sequence[GraphNode]) -> Kernels:
    """Kernels that add up the gradients of a tensor that is used several times, or that join the parts of a split.

    A sum of two tensors of one size is the end of a branch, whose start used one tensor twice. Consecutive
    linear layers with inputs of one size share the input.
    """
    found: Kernels = {}
    shared: Size | None = None
    for node in nodes:
        size = node.output
        if node.kind == "VECadd" and sum(one == size for one in node.inputs) > 1 and prod(size) > 1:
            found[node.number] = (_sum(size),)
        elif node.kind == "Linear" and node.inputs:
            (source,) = [one for one in node.inputs if len(one) > 1][:1] or [node.inputs[0]]
            if source == shared:
                found[node.number] = (_sum(source),)
            shared = source
        elif call_name(node) == "split" and node.inputs:
            whole = max(node.inputs, key=prod)
            found[node.number] = (pointwise("cat", (whole,), whole),)
        if shared is not None and size == shared and node.kind in _NEW_VALUES:
            shared = None
    return found


def _sum(size: Size) -> OperatorShape:
    return pointwise("add", (size, size), size)
