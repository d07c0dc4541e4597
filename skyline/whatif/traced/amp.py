"""What if the matrix products of a recording had run in bfloat16."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.errors import UsageError
from skyline.graph.scaling import scale
from skyline.graph.selection import select
from skyline.interval import Interval
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
    basis: Basis = Basis.MODEL_ONLY

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return "automatic mixed precision with bfloat16"

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
        """Scale the work, keep the host's time around it."""
        if value != "bf16":
            raise UsageError(f"amp={value} is not possible", hint="Only bf16 is: amp=bf16.")
        graph = changed.graph
        heavy, light = narrowed(graph)
        likely, least, most = (
            scale(scale(graph, heavy, products), light, others)
            for products, others in zip(_ends(HEAVY_FACTOR), _ends(OTHER_KERNEL_FACTOR), strict=True)
        )
        known = compute_capability(recording) != (0, 0)
        unnamed = "the GPU computes in bf16: the trace does not tell which one it is"
        return changed.between(
            recording,
            likely,
            least,
            most,
            assumptions=ASSUMPTIONS if known else (*ASSUMPTIONS, unnamed),
            memory_changes=True,
        )


def _ends(factor: Interval) -> tuple[float, float, float]:
    return factor.value, factor.low, factor.high


WHATIF = Amp()
