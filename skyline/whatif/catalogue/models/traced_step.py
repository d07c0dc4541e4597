"""The parts of the optimizer step in a profiler trace, and the step after fusing."""

from __future__ import annotations

from collections import Counter

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import OptimizerFact
from skyline.trace.kineto.category import Category
from skyline.trace.record import Phase
from skyline.whatif.constant import Constant
from skyline.whatif.cost.optimizer_step import Update, update_of
from skyline.whatif.recording import Recording, optimizer_names

_ONCE_PER_TENSOR = {
    "SGD": "aten::add_",
    "Adam": "aten::addcdiv_",
    "AdamW": "aten::addcdiv_",
    "Adagrad": "aten::addcdiv_",
}
"""An operator that the update calls once for each tensor; plain SGD has no other operator."""
_MOMENTUM = "aten::mul_"
_FIXED_US = Constant.at(
    50.0, "an assumption: µs of the fused call itself, and of the grouping of tensors by device and type"
)
_TRAFFIC = (0.4, 1.9)
"""Ratio of the fused traffic time to the modelled one, low and high, as for profiles."""
HOST = (TaskKind.CPU, TaskKind.LAUNCH, TaskKind.SYNC)
_FOREACH = "_foreach_"
_FUSED_CALLS = Constant.at(
    2, "a fused step counts the steps of all tensors with one call, and updates with another"
)
_QUICK = 10
"""Percentile of the operators' times that is taken as the cost of a bare call."""


@dataclass(frozen=True, slots=True)
class TracedForm:
    """The present form of the optimizer step: its update, and the operators and tensors per step."""

    update: Update
    tensors: float
    calls: float
    call_us: float


@dataclass(frozen=True, slots=True)
class ForeachForm:
    """A step that handles many tensors with each call: its update, the calls of a step, and their host time."""

    update: Update
    calls: float
    called_us: float


def why_not_fusible(recording: Recording) -> str:
    """The reason why the traced step cannot be fused, or is not known well enough; empty if it can."""
    names = optimizer_names(recording)
    if not names:
        return "no PyTorch optimizer takes the step"
    called = _called(recording)
    if any("_fused_" in name for name in called):
        return "the optimizer is fused already"
    if any(_FOREACH in name for name in called):
        if foreach_form(recording) is None:
            return f"{', '.join(names)}: a fused step moves no fewer bytes, or its traffic is not known"
        return ""
    if traced_form(recording) is None:
        return f"{', '.join(names)}: a trace does not show its step tensor by tensor"
    return ""


def fused(recording: Recording, form: TracedForm, graph: Graph) -> tuple[Graph, Graph, Graph]:
    """The graph with a fused step: likely, best and worst case.

    The optimizer's host time and kernels are scaled, each by a factor of its own.
    """
    host, work = (
        select(graph, phase=Phase.OPTIMIZER, kind=HOST),
        select(graph, phase=Phase.OPTIMIZER, on_gpu=True),
    )
    host_us = float((graph.durations + graph.gaps)[host].sum()) / recording.steps
    if host_us <= 0:
        return graph, graph, graph
    calls_us = form.tensors * form.update.fused_calls * form.call_us + _FIXED_US.value
    traffic = form.update.fused_bytes / form.update.unfused_bytes
    # On a CPU, the operators' time beyond their calls is memory traffic.
    moving_us = 0.0 if len(work) else max(0.0, host_us - form.calls * form.call_us)
    cases = ((1.0, traffic), (0.6, _TRAFFIC[0] * traffic), (1.5, min(1.0, _TRAFFIC[1] * traffic)))
    likely, least, most = (
        scale(
            scale(graph, host, min(1.0, (calls * calls_us + moved * moving_us) / host_us), gaps=True),
            work,
            moved,
        )
        for calls, moved in cases
    )
    return likely, least, most


def foreach_form(recording: Recording) -> ForeachForm | None:
    """The form of a step with many tensors per call; None without one, or if fusing saves nothing."""
    names = optimizer_names(recording)
    called = {name: count for name, count in _called(recording).items() if _FOREACH in name}
    if len(names) != 1 or not called:
        return None
    momentum = names[0] == "SGD" and f"aten::{_FOREACH}mul_" in called
    update = update_of(OptimizerFact(names[0], 1, 1, 1, int(momentum), {}))
    if update is None or not update.saves_traffic:
        return None
    trace, rows = recording.trace, _operators(recording)
    codes: list[int] = trace.name[rows].tolist()
    own = np.array([_FOREACH in trace.strings[code] for code in codes], np.bool_)
    called_us = float(trace.duration_us[rows[own]].sum()) / recording.steps
    return ForeachForm(update, sum(called.values()) / recording.steps, called_us)


def fused_from_foreach(recording: Recording, form: ForeachForm, graph: Graph) -> tuple[Graph, Graph, Graph]:
    """The graph with the step's many calls fused: likely, best and worst case.

    Kernels shrink with the bytes that they move; the host keeps its work around the calls.
    """
    host = select(graph, phase=Phase.OPTIMIZER, kind=HOST)
    work = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.KERNEL)
    host_us = float((graph.durations + graph.gaps)[host].sum()) / recording.steps
    if host_us <= 0:
        return graph, graph, graph
    saved_us = form.called_us * max(0.0, 1 - _FUSED_CALLS.value / form.calls)
    traffic = form.update.fused_bytes / (form.update.foreach_bytes or form.update.unfused_bytes)
    likely, least, most = (
        scale(scale(graph, host, max(0.0, 1 - part * saved_us / host_us), gaps=True), work, moved)
        for part, moved in ((1.0, traffic), (1.0, 0.8 * traffic), (0.5, min(1.0, _TRAFFIC[1] * traffic)))
    )
    return likely, least, most


def traced_form(recording: Recording) -> TracedForm | None:
    """The form of the optimizer step; None if the operators do not show it."""
    names = optimizer_names(recording)
    called = _called(recording)
    if len(names) != 1 or names[0] not in _ONCE_PER_TENSOR or not called:
        return None
    momentum = names[0] == "SGD" and called[_MOMENTUM] > 0
    tensors = called[_MOMENTUM if momentum else _ONCE_PER_TENSOR[names[0]]] / recording.steps
    # The sizes are not needed: the traffic of an update depends only on whether SGD keeps a buffer per
    # parameter.
    update = update_of(OptimizerFact(names[0], 1, int(tensors), 1, int(momentum), {}))
    if update is None or tensors < 1:
        return None
    rows = _operators(recording)
    took = recording.trace.duration_us[rows]
    return TracedForm(update, tensors, len(rows) / recording.steps, float(np.percentile(took, _QUICK)))


def _called(recording: Recording) -> Counter[str]:
    """The number of calls of each operator in optimizer steps, in the whole recording."""
    trace = recording.trace
    names: list[int] = trace.name[_operators(recording)].tolist()
    return Counter(trace.strings[name] for name in names)


def _operators(recording: Recording) -> Indices:
    """The rows of the outermost operators within optimizer steps."""
    graph, trace = recording.graph, recording.trace
    inside = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.CPU, lane=recording.kineto.main)
    rows = np.unique(recording.kineto.event[inside]).astype(np.int64)
    return rows[trace.category[rows] == Category.CPU_OP]
