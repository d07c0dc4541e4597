"""What a step would take if one kind of work were twice as fast: the plainest answer to what bounds it."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.column import Indices
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.tasks import PHASE
from skyline.trace.phase import Phase
from skyline.whatif.subject import Subject

_HOST = (TaskKind.CPU, TaskKind.LAUNCH, TaskKind.SYNC)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """A step, in ms, with all work of one kind taking half its time; None where there is none of it."""

    gpu_ms: float | None
    """The GPU's own work, without collectives."""
    communication_ms: float | None
    """Collectives, which hold the time they wait for other ranks, too."""
    host_ms: float | None
    """Operators, calls and the Python between them."""
    data_ms: float | None
    """The making of batches on the script's thread, or the wait for them."""


def sensitivity(subject: Subject) -> Sensitivity:
    """One simulation for each kind of work."""
    graph = subject.graph
    gpu = select(graph, on_gpu=True)
    exchanging = graph.tasks.phase[gpu] == PHASE[Phase.COMMUNICATION]
    return Sensitivity(
        _halved(subject, gpu[~exchanging]),
        _halved(subject, gpu[exchanging]),
        _halved(subject, select(graph, kind=_HOST)),
        _halved(subject, select(graph, kind=TaskKind.DATA)),
    )


def _halved(subject: Subject, chosen: Indices) -> float | None:
    if not len(chosen) or subject.step_ms(subject.graph) <= 0:
        return None
    faster = subject.step_ms(scale(subject.graph, chosen, 0.5, gaps=True))
    return subject.running_ms.value * faster / subject.step_ms(subject.graph)
