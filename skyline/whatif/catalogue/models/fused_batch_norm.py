"""What if batch normalization were part of the neighbouring convolutions."""

from __future__ import annotations

import re
from math import prod

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.launching import launches_of
from skyline.graph.selection import select
from skyline.graph.task import PHASE, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import PASSES, Phase
from skyline.whatif.base import Applicability, Provenance, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.constant import Constant
from skyline.whatif.number_formats import NARROW
from skyline.whatif.subject import shapes

_NORM = re.compile(r"batch_?norm|(?<![a-z])bn_(fw|bw)", re.IGNORECASE)
_RECTIFIER = re.compile(r"relu|clamp_min|threshold_backward", re.IGNORECASE)
_LEFT = Constant(
    0.5,
    0.3,
    0.85,
    "restructured batch normalization reads its input once instead of twice (Jung and others, 2019); Daydream takes "
    "half of the time for it",
)


@dataclass(frozen=True, slots=True)
class FusedBatchNorm(UsualWhatIf):
    """Halves batch normalization, and removes the rectifiers that follow it, with their launches.

    The statistics become part of the preceding convolution; the scaling and the rectifier, of the following
    one.
    """

    name: str = "fused_batch_norm"
    words: str = "batch normalization and rectifiers as part of the neighbouring convolutions"
    stage: Stage = Stage.FUSION
    excludes: tuple[str, ...] = ("compile",)

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to batch normalization that trains between convolutions on a GPU."""
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        graph = subject.graph_of(self.grain)
        if not len(select(graph, kind=TaskKind.KERNEL, work=WorkClass.CONVOLUTION)):
            return Applicability.no("no convolution was recorded")
        if not len(_norms(graph)):
            return Applicability.no("no batch normalization was recorded")
        if not len(select(graph, kind=TaskKind.KERNEL, phase=Phase.BACKWARD)):
            return Applicability.no(
                "without a backward pass it can be folded into the weights: export the model that way"
            )
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the kernels of the normalization, and remove those of the rectifiers."""
        graph = scenario.graph
        norms = _norms(graph)
        rectifiers = _beside(graph, norms)
        bare = scale(graph, rectifiers, 0.0, gaps=True)
        bare = scale(
            bare, np.setdiff1d(launches_of(graph, rectifiers), subject.step_marks(graph)), 0.0, gaps=True
        )
        cases = (scale(bare, norms, left) for left in _LEFT.ends)
        saved = scenario.pass_factor(subject) * _kept_bytes(subject, graph, rectifiers)
        steps = max(1, subject.steps)
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                f"{len(norms) / steps:.0f} kernels of batch normalization in a step take half their time",
                f"{len(rectifiers) / steps:.0f} kernels of neighbouring rectifiers are no longer needed",
                "kernels of convolutions that compute both exist for this GPU, and are as fast as the present ones",
            ),
            memory=lambda memory: memory.less("activations", Interval(saved, 0.0, saved)),
            provenance=Provenance.ASSUMED,
        )


def _norms(graph: Graph) -> Indices:
    return select(graph, kind=TaskKind.KERNEL, name=_NORM, phase=PASSES)


def _beside(graph: Graph, norms: Indices) -> Indices:
    """The rectifiers directly after a normalization on its stream, or directly before it in the backward pass."""
    named = select(graph, kind=TaskKind.KERNEL, name=_RECTIFIER, phase=PASSES)
    before, after = graph.structure.before, graph.structure.after
    forward = graph.tasks.phase[named] == PHASE[Phase.FORWARD]
    neighbour = np.where(forward, before[named], after[named])
    return named[np.isin(neighbour, norms)]


def _kept_bytes(subject: Subject, graph: Graph, rectifiers: Indices) -> float:
    """The output bytes of rectifiers in one forward pass; they are recomputed from the normalization's input."""
    found = 0.0
    for task, shape in zip(rectifiers.tolist(), shapes(subject, graph, rectifiers), strict=True):
        if shape is not None and shape.inputs and graph.tasks.phase[task] == PHASE[Phase.FORWARD]:
            narrow = bool(shape.dtypes) and shape.dtypes[0] in NARROW
            found += prod(shape.inputs[0]) * (2.0 if narrow else 4.0)
    return found / max(1, subject.steps)


WHATIF = FusedBatchNorm()
