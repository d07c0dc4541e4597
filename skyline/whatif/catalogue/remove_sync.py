"""What if the script never waited for the GPU within a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.dependency import CAUSE, Cause
from skyline.graph.edges import cut_dependencies
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, ON_GPU
from skyline.whatif.base import Applicability, Basis, Grain, Scenario, Semantics, Stage, Subject
from skyline.whatif.recording import Recording

_MAY_STAY = 0.5
"""Share of the gain that may be lost again to reading the same values elsewhere."""


@dataclass(frozen=True, slots=True)
class RemoveSync:
    """Cuts what makes the host wait for the GPU: synchronising calls and copies back to the host."""

    name: str = "remove_sync"
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.WAITING
    grain: Grain = Grain.OPERATORS
    excludes: tuple[str, ...] = ()

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return "no waiting for the GPU within a step (.item(), synchronize(), copies to the host)"

    def basis(self, subject: Subject) -> Basis:
        """No before-and-after pair has been measured."""
        return Basis.MODEL_ONLY

    def detect(self, subject: Subject) -> Applicability:
        """Applicable where the script's thread waits for the GPU in the counted steps."""
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        if not len(_within_steps(subject, waits(subject.graph_of(self.grain), subject.lane))):
            return Applicability.no("the script does not wait for the GPU within a step")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """The host goes on where it waited; how far ahead it gets is for the simulation to say."""
        graph = scenario.graph
        waiting = waits(graph, subject.lane)
        recorded = waits(subject.graph_of(self.grain), subject.lane)
        counted = subject.count if isinstance(subject, Recording) else subject.steps
        count = f"{len(_within_steps(subject, recorded)) / counted:.3g}"
        free = cut_dependencies(graph, cause=Cause.SYNC, target=waiting)
        gain_ms = subject.step_ms(graph) - subject.step_ms(free)
        return scenario.changed(
            free,
            above_ms=_MAY_STAY * max(0.0, gain_ms),
            assumptions=(f"what the script waits for ({count} times a step) is needed later or never",),
        )


def waits(graph: Graph, lane: str) -> Indices:
    """Tasks of the lane that wait for GPU work other than copies from the host."""
    tasks, edges = graph.tasks, graph.structure.dependencies
    from_host = np.zeros(len(graph), np.bool_)
    from_host[select(graph, kind=TaskKind.COPY, name=("HtoD", "HostToDevice"))] = True
    waiting = (
        (edges.cause == CAUSE[Cause.SYNC])
        & ON_GPU[tasks.kind[edges.source]]
        & ~((tasks.kind[edges.source] == KIND[TaskKind.COPY]) & from_host[edges.source])
        & (tasks.lane[edges.target] == tasks.lane_code(lane))
    )
    return np.unique(edges.target[waiting]).astype(np.int64)


def _within_steps(subject: Subject, tasks: Indices) -> Indices:
    """Those that lie in the counted steps; what stops the profiler lies outside."""
    if not isinstance(subject, Recording):
        return tasks
    begin, end = subject.window_us
    start = subject.timeline.starts[tasks]
    return tasks[(start >= begin) & (start < end)]


WHATIF = RemoveSync()
