"""What if the optimizer of a recording had updated all tensors in one pass over their memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import OptimizerFact
from skyline.trace.kineto.category import Category
from skyline.trace.phase import Phase
from skyline.whatif.base import Applicability, Basis, Semantics, Stage
from skyline.whatif.optimizer_cost import Update, update_of
from skyline.whatif.traced.base import Changed
from skyline.whatif.traced.facts import optimizer_names
from skyline.whatif.traced.recording import Recording

_ONCE_PER_TENSOR = {
    "SGD": "aten::add_",
    "Adam": "aten::addcdiv_",
    "AdamW": "aten::addcdiv_",
    "Adagrad": "aten::addcdiv_",
}
"""An operator that the update calls once for each tensor, tensor by tensor; plain SGD has no other at all."""
_MOMENTUM = "aten::mul_"
_FIXED_US = 50.0
"""The fused call itself, and the grouping of tensors by device and type."""
_TRAFFIC = (0.4, 1.9)
"""Time of the fused traffic over the modelled one, low and high, as for profiles."""
_HOST = (TaskKind.CPU, TaskKind.LAUNCH, TaskKind.SYNC)
_QUICK = 10
"""Percentile of the operators' times that is the cost of a bare call."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How the optimizer steps now: its update, and operators and tensors per step."""

    update: Update
    tensors: float
    calls: float
    call_us: float


@dataclass(frozen=True, slots=True)
class FusedOptimizer:
    """A call or two per tensor are left of the host's time, and of the GPU's what the bytes are to now's."""

    name: str = "fused_optimizer"
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.OPTIMIZER

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return "fused optimizer step (fused=True)"

    def basis(self, recording: Recording) -> Basis:
        """No before-and-after pair has been measured."""
        return Basis.MODEL_ONLY

    def detect(self, recording: Recording) -> Applicability:
        """Applicable to an optimizer of PyTorch's own that steps tensor by tensor."""
        names = optimizer_names(recording)
        if not names:
            return Applicability.no("no PyTorch optimizer takes the step")
        called = _called(recording)
        if any("_fused_" in name for name in called):
            return Applicability.no("the optimizer is fused already")
        if any("_foreach_" in name for name in called):
            return Applicability.no(
                "the optimizer steps many tensors at a time: what more fusing brings is not known"
            )
        if _form(recording) is None:
            return Applicability.no(
                f"{', '.join(names)}: not known from a trace what its step does tensor by tensor"
            )
        return Applicability(True)

    def transform(self, changed: Changed, value: str, recording: Recording) -> Changed:
        """Scale the optimizer's host time and kernels, each by its own factor."""
        form = _form(recording)
        graph = changed.graph
        host, work = _host(graph), select(graph, phase=Phase.OPTIMIZER, on_gpu=True)
        host_us = float((graph.durations + graph.gaps)[host].sum()) / len(recording.steps_ms)
        if form is None or host_us <= 0:
            return changed
        calls_us = form.tensors * form.update.fused_calls * form.call_us + _FIXED_US
        traffic = form.update.fused_bytes / form.update.unfused_bytes
        # On a CPU the operators' own time beyond their calls is memory traffic.
        moving_us = 0.0 if len(work) else max(0.0, host_us - form.calls * form.call_us)
        likely, least, most = (
            scale(
                scale(
                    graph, host, min(1.0, (calls * calls_us + bytes_moved * moving_us) / host_us), gaps=True
                ),
                work,
                bytes_moved,
            )
            for calls, bytes_moved in (
                (1.0, traffic),
                (0.6, _TRAFFIC[0] * traffic),
                (1.5, min(1.0, _TRAFFIC[1] * traffic)),
            )
        )
        return changed.between(
            recording,
            likely,
            least,
            most,
            assumptions=(
                f"about {form.tensors:.0f} tensors per step, told by the operators of the step",
                "this version of PyTorch has a fused form of the optimizer",
            ),
        )


def _form(recording: Recording) -> _Form | None:
    names = optimizer_names(recording)
    called = _called(recording)
    if len(names) != 1 or names[0] not in _ONCE_PER_TENSOR or not called:
        return None
    momentum = names[0] == "SGD" and called[_MOMENTUM] > 0
    tensors = called[_MOMENTUM if momentum else _ONCE_PER_TENSOR[names[0]]] / len(recording.steps_ms)
    # The sizes are not needed: only whether SGD keeps a buffer per parameter changes what an update moves.
    update = update_of(OptimizerFact(names[0], 1, int(tensors), 1, int(momentum), {}))
    if update is None or tensors < 1:
        return None
    rows = _operators(recording)
    took = recording.trace.duration_us[rows]
    return _Form(update, tensors, len(rows) / len(recording.steps_ms), float(np.percentile(took, _QUICK)))


def _called(recording: Recording) -> Counter[str]:
    """How often each operator of optimizer steps was called in the whole recording."""
    trace = recording.trace
    names: list[int] = trace.name[_operators(recording)].tolist()
    return Counter(trace.strings[name] for name in names)


def _operators(recording: Recording) -> Indices:
    """Rows of the outermost operators within optimizer steps."""
    graph, trace = recording.graph, recording.trace
    inside = select(graph, phase=Phase.OPTIMIZER, kind=TaskKind.CPU, lane=recording.kineto.main)
    rows = np.unique(recording.kineto.event[inside]).astype(np.int64)
    return rows[trace.category[rows] == Category.CPU_OP]


def _host(graph: Graph) -> Indices:
    return select(graph, phase=Phase.OPTIMIZER, kind=_HOST)


WHATIF = FusedOptimizer()
