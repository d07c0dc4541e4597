"""What if matrix products ran in bfloat16."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.scaling import scale
from skyline.graph.selection import Criteria, select
from skyline.graph.task import TaskKind, WorkClass, work_class
from skyline.graph.tasks import ON_GPU
from skyline.interval import Interval
from skyline.trace.kineto.category import GPU_WORK
from skyline.trace.phase import Phase
from skyline.trace.shape import OperatorShape
from skyline.whatif.base import Applicability, Basis, Grain, Scenario, Semantics, Stage, Subject
from skyline.whatif.memory import Memory
from skyline.whatif.recording import Recording
from skyline.whatif.trace_facts import compute_capability, computes_in_16_bits

_FAST_ON_CPU = ("amx_bf16", "avx512_bf16")
_FIRST_WITH_BFLOAT16 = (8, 0)
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
    stage: Stage = Stage.PRECISION
    grain: Grain = Grain.PHASES
    excludes: tuple[str, ...] = ()

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return "automatic mixed precision with bfloat16"

    def basis(self, subject: Subject) -> Basis:
        """No before-and-after pair has been measured."""
        return Basis.MODEL_ONLY

    def detect(self, subject: Subject) -> Applicability:
        """Only where the processor computes in bfloat16, and something heavy enough runs."""
        reason = _emulated(subject)
        if reason:
            return Applicability.no(reason)
        if _narrow_already(subject):
            return Applicability.no("its matrix products run in 16 bits already")
        if not len(select(subject.graph_of(self.grain), HEAVY_TASKS)):
            return Applicability.no("no matrix product, convolution or attention was recorded")
        return Applicability(True, values=("bf16",), default="bf16")

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the work, keep the host's time around it; activations shrink in part."""
        if value != "bf16":
            raise UsageError(f"amp={value} is not possible", hint="Only bf16 is: amp=bf16.")
        graph = scenario.graph
        heavy, light = narrowed(graph)
        assumptions: list[str] = list(ASSUMPTIONS)
        if isinstance(subject, Recording):
            # Pauses inside of CUDA graphs were recorded by nobody: they stay.
            recorded = np.isin(subject.trace.category[np.maximum(graph.tasks.origin, 0)], GPU_WORK)
            if not recorded[select(graph, kind=TaskKind.KERNEL)].all():
                assumptions.append("what CUDA graphs do in the pauses that the trace shows stays as it is")
            heavy, light = heavy[recorded[heavy]], light[recorded[light]]
            if compute_capability(subject) == (0, 0):
                assumptions.append("the GPU computes in bf16: the trace does not tell which one it is")
        likely, least, most = (
            scale(scale(graph, heavy, products), light, others)
            for products, others in zip(_ends(HEAVY_FACTOR), _ends(OTHER_KERNEL_FACTOR), strict=True)
        )
        return scenario.between(
            subject, likely, least, most, assumptions=tuple(assumptions), memory=_with_smaller_activations
        )


def narrowed(graph: Graph) -> tuple[Indices, Indices]:
    """The heavy tasks, and the kernels between them that move fewer bytes.

    Beside a GPU the heavy tasks are kernels only: launching them takes as long for any number format.
    """
    heavy = select(graph, HEAVY_TASKS)
    on_gpu = heavy[ON_GPU[graph.tasks.kind[heavy]]]
    return on_gpu if len(on_gpu) else heavy, select(graph, _LIGHT_KERNELS)


def _narrow(shape: OperatorShape) -> bool:
    return any(name in ("bfloat16", "float16") for name in shape.dtypes)


def _with_smaller_activations(memory: Memory) -> Memory:
    return memory.with_activations(_ACTIVATION_FACTOR)


def _emulated(subject: Subject) -> str:
    """Why the processor is known not to be fast in bfloat16; empty where it is, or may be."""
    if isinstance(subject, Recording):
        if not subject.on_gpu:
            return "whether this CPU computes in bf16 is not known from a trace"
        known = (0, 0) < compute_capability(subject) < _FIRST_WITH_BFLOAT16
        return "this GPU does not compute in bf16" if known else ""
    if subject.on_gpu or subject.profile is None:
        return ""
    features = subject.profile.environment.cpu_features
    return (
        ""
        if any(feature in features for feature in _FAST_ON_CPU)
        else "this CPU emulates bf16, it would be slower"
    )


def _narrow_already(subject: Subject) -> bool:
    if isinstance(subject, Recording):
        return computes_in_16_bits(subject)
    shapes = subject.profile.trace.shapes if subject.profile is not None else ()
    return any(work_class(one.operator) in _HEAVY and _narrow(one) for one in shapes)


def _ends(factor: Interval) -> tuple[float, float, float]:
    return factor.value, factor.low, factor.high


WHATIF = Amp()
