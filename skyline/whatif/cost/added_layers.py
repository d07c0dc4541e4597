"""The calls that an added layer needs: its operators, and the time between them."""

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
    """The graph with two layer calls in place of one: twice the gaps, on a GPU also the operators and launches."""
    if subject.on_gpu:
        host = tasks_of(graph, layers, kind=HOST, phase=(Phase.FORWARD, Phase.BACKWARD))
        return scale(graph, host, 2.0, gaps=True)
    gaps = graph.gaps.copy()
    gaps[chosen] *= 2
    return graph.with_times(gaps=gaps)


def with_layer_behind(subject: Subject, graph: Graph, layers: Sequence[Replaced], chosen: Indices) -> Graph:
    """As ``called_twice``, with a linear layer added after each layer; its product is already counted.

    On a CPU, the added layer has the operators that recorded linear layers have next to each product. Each
    operator adds the recorded mean gap between the operators of its pass: Python's time in the forward pass,
    the autograd engine's in the backward pass. If no linear layer was recorded, the operators of the first
    layer are taken.
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
        # A task of Python or of the engine alone consists of a gap only.
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
    """The graph with ``count`` more operators after each chosen CPU task, which compute next to nothing."""
    if subject.on_gpu:
        return graph
    gaps = graph.gaps.copy()
    for phase in PASSES:
        here = chosen[graph.tasks.phase[chosen] == PHASE[phase]]
        gaps[here] += count * call_us(subject, graph, phase)
    return graph.with_times(gaps=gaps)


def _beside_products(subject: Subject, graph: Graph, phase: Phase) -> tuple[float, float] | None:
    """The time (µs) and number of operators next to each product of the recorded linear layers; None without any."""
    paths = {module.path for module in subject.script.modules if module.class_name == "Linear"}
    every = tasks_within(graph, paths, kind=TaskKind.CPU, phase=phase)
    products = tasks_within(graph, paths, kind=TaskKind.CPU, phase=phase, work=WorkClass.MATMUL)
    if not len(products):
        return None
    beside = np.setdiff1d(every, products)
    return float(graph.durations[beside].sum()) / len(products), len(beside) / len(products)
