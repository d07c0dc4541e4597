"""The calls that a layer brings which is put behind another one: its operators, and the way to each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.task import KIND, PHASE, TaskKind, WorkClass
from skyline.trace.record import PASSES, Phase
from skyline.whatif.cost.factored_layers import HOST, Replaced, tasks_of, tasks_within
from skyline.whatif.cost.operator_call import call_us
from skyline.whatif.subject import Subject


def called_twice(subject: Subject, graph: Graph, layers: Sequence[Replaced], chosen: Indices) -> Graph:
    """The host calls two layers in place of one: what is between operators, and on a GPU operators and launches."""
    if subject.on_gpu:
        host = tasks_of(graph, layers, kind=HOST, phase=(Phase.FORWARD, Phase.BACKWARD))
        return scale(graph, host, 2.0, gaps=True)
    gaps = graph.gaps.copy()
    gaps[chosen] *= 2
    return graph.with_times(gaps=gaps)


def with_layer_behind(subject: Subject, graph: Graph, layers: Sequence[Replaced], chosen: Indices) -> Graph:
    """As ``called_twice``, of layers with a linear layer behind each, whose product is counted already.

    On a processor it brings the operators that linear layers of the recording have next to each product, and each
    operator is reached in the recorded mean time between the operators of its pass: Python's in the forward pass, the
    engine's of autograd in the backward pass. Where no linear layer was recorded, it brings those of the first layer.
    """
    changed = called_twice(subject, graph, layers, chosen)
    if subject.on_gpu:
        return changed
    durations, gaps = changed.durations.copy(), changed.gaps.copy()
    tasks = graph.tasks
    on_main = tasks.lane == tasks.lane_code(subject.lane)
    for phase in PASSES:
        own = tasks_of(graph, layers, kind=TaskKind.CPU, phase=phase)
        in_pass = on_main & (tasks.phase == PHASE[phase])
        # A task of Python alone, or of the engine's, is all gap.
        operators = int((in_pass & (tasks.kind == KIND[TaskKind.CPU]) & (graph.durations > 0)).sum())
        between_us = float(graph.gaps[in_pass].sum()) / max(1, operators)
        linear = _beside_products(subject, graph, phase)
        if linear is None or all(layer.module.class_name == "Linear" for layer in layers):
            durations[np.setdiff1d(own, chosen)] *= 2
            gaps[own] += between_us
        else:
            beside_us, count = linear
            heads = np.intersect1d(own, chosen)
            durations[heads] += beside_us
            gaps[heads] += (1 + count) * between_us
    return changed.with_times(durations=durations, gaps=gaps)


def with_calls_added(subject: Subject, graph: Graph, chosen: Indices, count: float) -> Graph:
    """With so many more operators behind each chosen task of a processor, which compute next to nothing."""
    if subject.on_gpu:
        return graph
    gaps = graph.gaps.copy()
    for phase in PASSES:
        here = chosen[graph.tasks.phase[chosen] == PHASE[phase]]
        gaps[here] += count * call_us(subject, graph, phase)
    return graph.with_times(gaps=gaps)


def _beside_products(subject: Subject, graph: Graph, phase: Phase) -> tuple[float, float] | None:
    """Time and number of the operators next to each product of the recorded linear layers; None without any."""
    paths = {module.path for module in subject.script.modules if module.class_name == "Linear"}
    every = tasks_within(graph, paths, kind=TaskKind.CPU, phase=phase)
    products = tasks_within(graph, paths, kind=TaskKind.CPU, phase=phase, work=WorkClass.MATMUL)
    if not len(products):
        return None
    beside = np.setdiff1d(every, products)
    return float(graph.durations[beside].sum()) / len(products), len(beside) / len(products)
