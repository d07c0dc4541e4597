"""What if each pass over the model were launched as one CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.graph.tasks import PHASE
from skyline.trace.phase import Phase
from skyline.whatif.base import Applicability, Basis, Semantics, Stage
from skyline.whatif.traced.base import Changed
from skyline.whatif.traced.recording import Recording
from skyline.whatif.traced.remove_sync import waits

_PASSES = (Phase.FORWARD, Phase.BACKWARD)
_HOST = (TaskKind.CPU, TaskKind.LAUNCH)
_LEFT = 0.02
"""Share of the host's time in the passes that remains: copying the inputs in, and the launch itself."""
_LEFT_AT_WORST = 0.25
_WORTH_ASKING = 0.02


@dataclass(frozen=True, slots=True)
class CudaGraphs:
    """Takes the host's time in the forward and backward pass away; the GPU's work stays as it is."""

    name: str = "cuda_graphs"
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.OPTIMIZER

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return "launch the forward and backward pass as CUDA graphs"

    def basis(self, recording: Recording) -> Basis:
        """No before-and-after pair has been measured."""
        return Basis.MODEL_ONLY

    def detect(self, recording: Recording) -> Applicability:
        """Applicable where kernels are launched one by one, and the passes do not stop for the GPU."""
        if not recording.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        graph = recording.graph
        if not len(select(graph, kind=TaskKind.LAUNCH, phase=_PASSES)):
            return Applicability.no("no launch in a forward or backward pass was recorded")
        if any("GraphLaunch" in name for name in graph.tasks.names):
            return Applicability.no("CUDA graphs are in use already")
        if np.isin(
            graph.tasks.phase[waits(graph, recording.kineto.main)], [PHASE[one] for one in _PASSES]
        ).any():
            return Applicability.no(
                "the forward or backward pass waits for the GPU: a graph cannot hold that"
            )
        host_ms = float((graph.durations + graph.gaps)[_in_passes(recording)].sum()) / 1e3
        if host_ms < _WORTH_ASKING * sum(recording.steps_ms):
            return Applicability.no("the host's share of the passes is too small to matter")
        return Applicability(True)

    def transform(self, changed: Changed, value: str, recording: Recording) -> Changed:
        """Scale the host's time in the passes to next to nothing."""
        chosen = _in_passes(recording)
        likely, least, most = (
            scale(changed.graph, chosen, left, gaps=True) for left in (_LEFT, 0.0, _LEFT_AT_WORST)
        )
        return changed.between(
            recording,
            likely,
            least,
            most,
            assumptions=(
                "shapes are the same in every step, and nothing in the passes depends on values on the GPU",
                "kernels follow one another as closely as they do now",
            ),
        )


def _in_passes(recording: Recording) -> Indices:
    """The host's tasks in the passes, but for the points at which steps begin and end."""
    chosen = select(recording.graph, kind=_HOST, phase=_PASSES)
    steps = recording.kineto.steps
    return np.setdiff1d(chosen, np.concatenate([steps.first, steps.last]))


WHATIF = CudaGraphs()
