"""The calls that an added layer needs: its operators, and the time between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import PHASE, TaskKind, WorkClass
from skyline.trace.record import PASSES
from skyline.whatif.cost.factored_layers import HOST, Replaced, tasks_of, tasks_within
from skyline.whatif.cost.operator_call import between_us, call_us
from skyline.whatif.subject import Subject

_SUMMED = "AccumulateGrad"
"""Its time depends on the size of a weight."""


def called_twice(graph: Graph, layers: Sequence[Replaced]) -> Graph:
    """The graph with two layer calls in place of one on a GPU: twice the operators, launches and gaps of the host."""
    host = tasks_of(graph, layers, kind=HOST, phase=PASSES)
    return scale(graph, host, 2.0, gaps=True)


def with_layer_behind(subject: Subject, graph: Graph, layers: Sequence[Replaced], chosen: Indices) -> Graph:
    """The graph with a linear layer added after each layer, except its product and the sum of its gradients.

    On a GPU, as ``called_twice``. On a CPU, the added layer has the operators that recorded linear layers have
    next to each product, each with the usual time from there to the next operator. If no linear layer was
    recorded, the operators of the first layer are taken.
    """
    if subject.on_gpu:
        return called_twice(graph, layers)
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    paths = {module.path for module in subject.script.modules if module.class_name == "Linear"}
    for phase in PASSES:
        own = tasks_of(graph, layers, kind=TaskKind.CPU, phase=phase)
        summed = select(graph, kind=TaskKind.CPU, phase=phase, name=_SUMMED)
        linear = tasks_within(graph, paths, kind=TaskKind.CPU, phase=phase)
        products = tasks_within(graph, paths, kind=TaskKind.CPU, phase=phase, work=WorkClass.MATMUL)
        gap_us = between_us(subject, graph, phase, linear if len(products) else own)
        if not len(products) or all(layer.module.class_name == "Linear" for layer in layers):
            durations[np.setdiff1d(own, np.union1d(chosen, summed))] *= 2
            gaps[own] += gap_us
        else:
            beside = np.setdiff1d(linear, np.union1d(products, summed))
            heads = np.intersect1d(own, chosen)
            durations[heads] += float(graph.durations[beside].sum()) / len(products)
            gaps[heads] += (1 + len(beside) / len(products)) * gap_us
    return graph.with_times(durations=durations, gaps=gaps)


def with_calls_added(subject: Subject, graph: Graph, chosen: Indices, count: float) -> Graph:
    """The graph with ``count`` more operators after each chosen CPU task, which compute next to nothing."""
    if subject.on_gpu:
        return graph
    gaps = graph.gaps.copy()
    for phase in PASSES:
        here = chosen[graph.tasks.phase[chosen] == PHASE[phase]]
        gaps[here] += count * call_us(subject, graph, phase)
    return graph.with_times(gaps=gaps)
