"""Whole models from their operator graphs: what each node launches, timed by a predictor and put together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorPredictor, OperatorTime
from skyline.trace.shape import OperatorShape
from skyline_predictors.data_flow import gradient_sums, operand_copies
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.node_operators import NodeWork, node_work
from skyline_predictors.operator_graph import GraphNode, graph_nodes

CALL_US = HostCost().launch_us
"""What timing a node by itself adds to its kernels: what the host takes until the first of them is launched."""
_SEVERAL_GPUS = ("-dp", "-tp", "-pp")


@dataclass(frozen=True, slots=True)
class ModelTime:
    """One run of a model in ms: both phases together with the interval, and each by itself."""

    whole: Interval
    forward_ms: float
    backward_ms: float


@dataclass(frozen=True, slots=True)
class NodeTime:
    """One run of a node in ms, as timing it by itself would show."""

    number: int
    forward_ms: float
    backward_ms: float
    accumulate_ms: float


def is_training(graph: str) -> bool:
    """Whether a graph is that of a training step."""
    return "-train-" in graph


def model_time(graph: str, gpu: str, folder: Path, predictor: OperatorPredictor) -> ModelTime:
    """A whole model on a GPU.

    The GPU runs one kernel after the other with a moment between them; where launching them takes longer than
    running them, launching decides.

    Raises:
        UsageError: the graph is not in the folder, or is that of several GPUs.
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
    """Each node by itself, as measured data time them."""
    works = _works(graph, folder, recorded=True)
    asked = {shape for _, work in works for shape in (*work.forward, *work.backward, *work.accumulate)}
    times = _times(asked, predictor, gpu_of(gpu, folder))

    def alone(shapes: Iterable[OperatorShape]) -> float:
        values = [times[shape].time_us.value for shape in shapes]
        return (CALL_US + sum(values)) / 1e3 if values else 0.0

    return [
        NodeTime(node.number, alone(work.forward), alone(work.backward), alone(work.accumulate))
        for node, work in works
    ]


def _works(graph: str, folder: Path, *, recorded: bool) -> list[tuple[GraphNode, NodeWork]]:
    training = is_training(graph)
    nodes = graph_nodes(graph, folder)
    copies = operand_copies(nodes)
    # Nodes that are timed one by one have nothing to add up, and their gradients go nowhere.
    sums = gradient_sums(nodes) if training and not recorded else {}
    found: list[tuple[GraphNode, NodeWork]] = []
    for node in nodes:
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
    """How far below and above: operators of a group go together, groups are summed in squares."""
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
