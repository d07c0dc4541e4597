"""What if matrix products ran in bfloat16."""

from __future__ import annotations

from dataclasses import dataclass, replace

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.scaling import scale
from skyline.graph.selection import Criteria, select
from skyline.graph.task import TaskKind, WorkClass, work_class
from skyline.graph.tasks import ON_GPU
from skyline.interval import Interval
from skyline.trace.phase import Phase
from skyline.trace.shape import OperatorShape
from skyline.whatif.base import Applicability, Basis, Scenario, Semantics, Stage
from skyline.whatif.baseline import Baseline

_FAST_ON_CPU = ("amx_bf16", "avx512_bf16")
_HEAVY = (WorkClass.MATMUL, WorkClass.CONVOLUTION, WorkClass.ATTENTION)
_IN_MODEL = (Phase.FORWARD, Phase.BACKWARD)
HEAVY_TASKS = Criteria(work=_HEAVY, phase=_IN_MODEL, kind=(TaskKind.CPU, TaskKind.KERNEL))
"""What a matrix unit computes, in the passes over the model."""
_LIGHT_KERNELS = Criteria(work=(WorkClass.OTHER,), phase=_IN_MODEL, kind=TaskKind.KERNEL)
HEAVY_FACTOR = Interval(0.5, 0.3, 0.85)
"""Time of a heavy operator or kernel in bfloat16 over that in float32; Daydream takes 1/3 on a 2080 Ti."""
OTHER_KERNEL_FACTOR = Interval(0.75, 0.5, 1.0)
"""Kernels bound by memory move half the bytes, except those that stay in float32 (softmax, norms, losses)."""
_ACTIVATION_FACTOR = Interval(0.65, 0.5, 0.9)
ASSUMPTIONS = (
    "matrix products, convolutions and attention take half their time, within a wide range",
    "casting the weights is not counted",
)


@dataclass(frozen=True, slots=True)
class Amp:
    """Scales products, convolutions and attention of the forward and backward pass."""

    name: str = "amp"
    semantics: Semantics = Semantics.NUMERICS
    stage: Stage = Stage.COMPUTE

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return "automatic mixed precision with bfloat16"

    def basis(self, baseline: Baseline) -> Basis:
        """No before-and-after pair has been measured."""
        return Basis.MODEL_ONLY

    def detect(self, baseline: Baseline) -> Applicability:
        """Only where the processor computes in bfloat16, and something heavy enough runs."""
        features = baseline.profile.environment.cpu_features
        if not baseline.on_gpu and not any(feature in features for feature in _FAST_ON_CPU):
            return Applicability.no("this CPU emulates bf16, it would be slower")
        if any(work_class(one.operator) in _HEAVY and _narrow(one) for one in baseline.profile.trace.shapes):
            return Applicability.no("its matrix products run in 16 bits already")
        if not len(select(baseline.outline, HEAVY_TASKS)):
            return Applicability.no("no matrix product, convolution or attention was recorded")
        return Applicability(True, values=("bf16",), default="bf16")

    def transform(self, scenario: Scenario, value: str, baseline: Baseline) -> Scenario:
        """Scale the work, keep the Python time around it; activations shrink in part."""
        if value != "bf16":
            raise UsageError(f"amp={value} is not possible", hint="Only bf16 is: amp=bf16.")
        graph = scenario.graph
        heavy, light = narrowed(graph)
        iterations = max(1, len(graph.iterations))
        below = above = 0.0
        for chosen, factor in ((heavy, HEAVY_FACTOR), (light, OTHER_KERNEL_FACTOR)):
            spent_ms = float(graph.durations[chosen].sum()) / iterations / 1e3
            below += spent_ms * (factor.value - factor.low)
            above += spent_ms * (factor.high - factor.value)
        changed = scenario.changed(
            scale(scale(graph, heavy, HEAVY_FACTOR.value), light, OTHER_KERNEL_FACTOR.value),
            below_ms=below,
            above_ms=above,
            assumptions=ASSUMPTIONS,
        )
        share = baseline.memory.activations / max(1, baseline.memory.total)
        return replace(changed, peak_bytes=_with_smaller_activations(scenario.peak_bytes, share))


def narrowed(graph: Graph) -> tuple[Indices, Indices]:
    """The heavy tasks, and the kernels between them that move fewer bytes.

    Beside a GPU the heavy tasks are kernels only: launching them takes as long for any number format.
    """
    heavy = select(graph, HEAVY_TASKS)
    on_gpu = heavy[ON_GPU[graph.tasks.kind[heavy]]]
    return on_gpu if len(on_gpu) else heavy, select(graph, _LIGHT_KERNELS)


def _narrow(shape: OperatorShape) -> bool:
    return any(name in ("bfloat16", "float16") for name in shape.dtypes)


def _with_smaller_activations(peak: Interval, share: float) -> Interval:
    return Interval(
        peak.value * (1 - share * (1 - _ACTIVATION_FACTOR.value)),
        peak.low * (1 - share * (1 - _ACTIVATION_FACTOR.low)),
        peak.high * (1 - share * (1 - _ACTIVATION_FACTOR.high)),
    )


WHATIF = Amp()
