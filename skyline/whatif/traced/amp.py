"""What if the matrix products of a recording had run in bfloat16."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.errors import UsageError
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.trace.kineto.category import GPU_WORK
from skyline.whatif.amp import ASSUMPTIONS, HEAVY_FACTOR, HEAVY_TASKS, OTHER_KERNEL_FACTOR, narrowed
from skyline.whatif.base import Applicability, Basis, Semantics, Stage
from skyline.whatif.traced.base import Changed
from skyline.whatif.traced.facts import compute_capability, computes_in_16_bits
from skyline.whatif.traced.recording import Recording

_FIRST_WITH_BFLOAT16 = (8, 0)


@dataclass(frozen=True, slots=True)
class Amp:
    """Scales products, convolutions and attention of the forward and backward pass."""

    name: str = "amp"
    semantics: Semantics = Semantics.NUMERICS
    stage: Stage = Stage.COMPUTE

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return "automatic mixed precision with bfloat16"

    def basis(self, recording: Recording) -> Basis:
        """No before-and-after pair has been measured."""
        return Basis.MODEL_ONLY

    def detect(self, recording: Recording) -> Applicability:
        """Only on a GPU that computes in bfloat16, and does not compute in 16 bits yet."""
        if not recording.on_gpu:
            return Applicability.no("whether this CPU computes in bf16 is not known from a trace")
        capability = compute_capability(recording)
        if (0, 0) < capability < _FIRST_WITH_BFLOAT16:
            return Applicability.no("this GPU does not compute in bf16")
        if computes_in_16_bits(recording):
            return Applicability.no("matrix products run in 16 bits already")
        if not len(select(recording.graph, HEAVY_TASKS)):
            return Applicability.no("no matrix product, convolution or attention was recorded")
        return Applicability(True, values=("bf16",), default="bf16")

    def transform(self, changed: Changed, value: str, recording: Recording) -> Changed:
        """Scale the work, keep the host's time around it, and pauses inside of CUDA graphs, which nobody recorded."""
        if value != "bf16":
            raise UsageError(f"amp={value} is not possible", hint="Only bf16 is: amp=bf16.")
        graph = changed.graph
        recorded = np.isin(recording.trace.category[recording.kineto.event], GPU_WORK)
        heavy, light = (chosen[recorded[chosen]] for chosen in narrowed(graph))
        likely, least, most = (
            scale(scale(graph, heavy, products), light, others)
            for products, others in zip(_ends(HEAVY_FACTOR), _ends(OTHER_KERNEL_FACTOR), strict=True)
        )
        assumptions: list[str] = list(ASSUMPTIONS)
        if compute_capability(recording) == (0, 0):
            assumptions.append("the GPU computes in bf16: the trace does not tell which one it is")
        if not recorded[select(graph, kind=TaskKind.KERNEL)].all():
            assumptions.append("what CUDA graphs do in the pauses that the trace shows stays as it is")
        return changed.between(
            recording,
            likely,
            least,
            most,
            assumptions=tuple(assumptions),
            memory_changes=True,
        )


def _ends(factor: Interval) -> tuple[float, float, float]:
    return factor.value, factor.low, factor.high


WHATIF = Amp()
