"""What if gradients were freed after each step instead of being filled with zeros."""

from __future__ import annotations

import re
from math import prod

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.launching import launched_by, launches_of
from skyline.graph.removal import remove
from skyline.graph.selection import select
from skyline.lazy_dataclass import dataclass
from skyline.memory.levels import RecordedLevels
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.memory import MemoryChange

_ZEROING = ("aten::zero_", "aten::_foreach_zero_")
_ADDING = "AccumulateGrad"
_ADD = re.compile(r"^aten::add_$")
_OUTSIDE = tuple(phase for phase in Phase if phase not in (Phase.FORWARD, Phase.BACKWARD, Phase.DATA))
_QUICK = 10
"""Percentile of the times to store a gradient that is taken as the time without an addition."""
_PASSES = 3.0
"""Adding to the zeros moves three times the bytes of writing them: read both, write one."""


@dataclass(frozen=True, slots=True)
class ZeroGrad(UsualWhatIf):
    """Removes the zeroing, and the addition to the zeros: the first gradient becomes the parameter's own."""

    name: str = "zero_grad"
    training_only: bool = True
    words: str = "gradients set to None between steps (set_to_none=True)"
    stage: Stage = Stage.OPTIMIZER

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if gradients are filled with zeros."""
        graph = subject.graph_of(Grain.OPERATORS)
        told = (
            []
            if subject.profile is None
            else [call for call in subject.script.calls if call.name == "zero_grad"]
        )
        if not len(_zeroing(graph)):
            given_up = any(call.options.get("set_to_none") for call in told)
            return Applicability.no(
                "gradients are set to None between steps already"
                if given_up
                else "no gradients are filled with zeros"
            )
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Remove the zeroing; the first gradient of each step costs only a call."""
        graph = scenario.graph
        zeroing = _zeroing(graph)
        adding, kernels = _first_adding(graph, subject), _first_adding_kernels(graph, subject)
        durations = graph.durations.copy()
        bare = float(np.percentile(durations[adding], _QUICK)) if len(adding) else 0.0
        durations[adding] = np.minimum(durations[adding], bare)
        work: Indices = np.concatenate((zeroing, kernels))
        gone: Indices = np.concatenate((work, launches_of(graph, work)))
        spared_us = float((graph.durations - durations).sum()) + float(graph.durations[kernels].sum())
        zeroed_us = float(graph.durations[zeroing].sum())
        # If the addition cannot be distinguished from other work, it only widens the range.
        further_us = 0.0 if len(adding) or len(kernels) else _PASSES * zeroed_us
        changed = remove(graph.with_times(durations=durations), np.unique(gone))
        return scenario.changed(
            changed,
            below_ms=further_us / 1e3 / subject.steps,
            above_ms=(spared_us + zeroed_us) / 1e3 / subject.steps,
            assumptions=("nothing reads a gradient between the steps, or writes into it",),
            # The gradients of one part of a batch exist during the next.
            memory=_memory_change(subject) if scenario.parts == 1 else None,
        )


def _zeroing(graph: Graph) -> Indices:
    """Tasks that fill gradients with zeros, outside forward and backward work: operators, and kernels on a GPU."""
    named = select(graph, name=_ZEROING, phase=_OUTSIDE)
    return np.union1d(named, launched_by(graph, named)).astype(np.int64)


def _first_adding_kernels(graph: Graph, subject: Subject) -> Indices:
    """The kernels that add the first gradients to zeros, in a predicted graph whose kernels are named as operators."""
    named = select(graph, name=_ADD, phase=Phase.BACKWARD, on_gpu=True)
    rounds = 1 if subject.profile is None else max(1, subject.script.batch.micro_batches)
    many = len(select(graph, name=_ZEROING, phase=_OUTSIDE, on_gpu=True))
    # Any other count means that these kernels also add other tensors than gradients of parameters.
    return named if many and rounds == 1 and len(named) == many else np.zeros(0, np.int64)


def _first_adding(graph: Graph, subject: Subject) -> Indices:
    """The tasks that add the first gradient of each step to the zeros; later gradients are added in any case."""
    adding = select(graph, name=_ADDING, phase=Phase.BACKWARD, on_gpu=False)
    rounds = 1 if subject.profile is None else max(1, subject.script.batch.micro_batches)
    if rounds == 1:
        return adding
    of_iteration = [adding[graph.tasks.iteration[adding] == iteration] for iteration in graph.iterations]
    return np.concatenate([rows[: len(rows) // rounds] for rows in of_iteration]).astype(np.int64)


def _memory_change(subject: Subject) -> MemoryChange | None:
    there = _gradients_there(subject)
    if there is None:
        return None

    def change(levels: RecordedLevels) -> RecordedLevels:
        return levels.having_gradients(there * levels.gradients)

    return lambda memory: memory.changed(change, lambda levels: levels)


def _gradients_there(subject: Subject) -> Times | None:
    """The share of the gradients that exist at each moment, from their backward work to the next zeroing."""
    if subject.levels is None:
        return None
    trace, levels = subject.script.trace, subject.levels
    begin = trace.iterations[-1].start_us
    coming = [
        (record.end_us, 4.0 * prod(trace.shapes[record.shape].inputs[0]) if record.shape >= 0 else 0.0)
        for record in trace.records
        if record.start_us >= begin and _ADDING in record.name
    ]
    cleared = [
        record.start_us
        for record in trace.records
        if record.start_us >= begin and record.name in _ZEROING and record.phase in _OUTSIDE
    ]
    if not coming or not cleared:
        return None
    ends = np.array([end for end, _ in coming])
    share = np.cumsum([size for _, size in coming])
    share = share / share[-1] if share[-1] > 0 else np.arange(1, len(ends) + 1) / len(ends)
    there = np.concatenate(([0.0], share))[np.searchsorted(ends, levels.times_us, side="right")]
    if cleared[0] > ends[-1]:
        there = np.where(levels.times_us > cleared[0], 0.0, there)
    else:
        there = np.where(levels.times_us < cleared[0], 1.0, there)
    return there


WHATIF = ZeroGrad()
