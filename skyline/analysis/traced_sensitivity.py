"""The step time with one kind of work twice as fast: the simplest description of the bottleneck."""

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
    """The step time, in ms, with all work of one kind halved; None without such work."""

    gpu_ms: float | None
    """The GPU's own work, without collectives."""
    communication_ms: float | None
    """Collectives, including the time in which they wait for other ranks."""
    host_ms: float | None
    """Operators, calls and the Python between them."""
    data_ms: float | None
    """Loading batches on the script's thread, or waiting for them."""


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
