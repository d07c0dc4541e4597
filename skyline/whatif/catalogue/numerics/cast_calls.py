"""The host's part of autocast: how many casts are called, and what a call takes on this host."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph
from skyline.graph.launching import launches
from skyline.graph.selection import select
from skyline.graph.task import KIND, PHASE, TaskKind, WorkClass
from skyline.trace.record import Phase
from skyline.whatif.catalogue.numerics.narrow_trials import wide_inputs
from skyline.whatif.constant import Constant
from skyline.whatif.subject import Subject, shapes

_PASSES = (Phase.FORWARD, Phase.BACKWARD)
_PRODUCTS = (WorkClass.MATMUL, WorkClass.CONVOLUTION)
USUAL_CASTS = {Phase.FORWARD: 2.0, Phase.BACKWARD: 1.0}
"""Casts for each kernel of a product with a weight, where no shapes tell: a weight and its bias or, often enough, an
input; on the way back the gradient of one of them."""
_OF_TWO_ACTIVATIONS = ("aten::bmm", "aten::baddbmm", "aten::matmul", "aten::einsum")
_OWN_LAUNCHES = Constant.at(
    10.0,
    "``torch.amp.GradScaler`` calls so many kernels and copies a step: the scale of the loss, its inverse, the flag "
    "for infinities and what reads and updates them",
)
_MOST_CALL_US = Constant.at(
    40.0, "an assumption: an operator that takes longer between two launches does other work than a cast"
)
_WALK = Constant.at(
    0.15,
    "an assumption: Python looks at a gradient before it is unscaled in this part of the time of a call with a launch",
)


def cast_calls(subject: Subject, graph: Graph, weighted: Indices) -> Mapping[Phase, float]:
    """Casts that the host calls for each kernel of a product with a weight, by pass.

    Autocast casts each parameter of a product once, and its input where an operator before it leaves float32. The way
    back casts the gradient of each. Shapes of the forward calls tell the parameters: all inputs but one.
    """
    forward = select(graph, phase=Phase.FORWARD, kind=TaskKind.CPU, work=_PRODUCTS)
    forward = forward[~_named(graph, forward, _OF_TWO_ACTIVATIONS)]
    called = [
        (row, one) for row, one in zip(forward.tolist(), shapes(subject, graph, forward), strict=True) if one
    ]
    if not called:
        return USUAL_CASTS
    rows = np.array([row for row, _ in called], np.int64)
    parameters = sum(max(1, len(shape.inputs) - 1) for _, shape in called)
    wide = sum(wide_inputs(graph, rows, _operators(graph)))
    of_phase = {one: np.count_nonzero(graph.tasks.phase[weighted] == PHASE[one]) for one in _PASSES}
    return {one: (parameters + wide) / count if count else 0.0 for one, count in of_phase.items()}


def call_us(graph: Graph) -> float:
    """The host's time for one more kernel that an operator calls itself: the median from launch to launch.

    Python between the operators does not count: it calls no cast.
    """
    tasks = graph.tasks
    calls = np.unique(launches(graph).source)
    in_passes = np.isin(tasks.phase, [PHASE[one] for one in _PASSES])
    calls = calls[in_passes[calls]]
    if not len(calls):
        return 0.0
    lane = tasks.lane[calls[0]]
    mine = np.isin(tasks.kind, [KIND[TaskKind.CPU], KIND[TaskKind.LAUNCH]]) & in_passes & (tasks.lane == lane)
    spent = np.cumsum(np.where(mine, graph.durations, 0.0))[calls[tasks.lane[calls] == lane]]
    return min(_MOST_CALL_US.value, float(np.median(np.diff(spent, prepend=0.0))))


def scaler_call_us(subject: Subject, graph: Graph) -> float:
    """The host's time in a ``GradScaler`` from the backward pass to its wait: calls, and a look at each gradient."""
    tensors = (
        sum(one.tensor_count for one in subject.profile.optimizers) if subject.profile is not None else 0
    )
    return call_us(graph) * (_OWN_LAUNCHES.value + _WALK.value * tensors)


def _operators(graph: Graph) -> Flags:
    """Flags of the tasks that are calls of operators."""
    named = np.array([name.startswith("aten::") for name in graph.tasks.names], np.bool_)
    return named[graph.tasks.name]


def _named(graph: Graph, chosen: Indices, names: tuple[str, ...]) -> Flags:
    table = np.array([name in names for name in graph.tasks.names], np.bool_)
    return table[graph.tasks.name[chosen]]
