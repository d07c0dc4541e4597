"""What if activations were kept in fewer bits between the forward and the backward pass."""

from __future__ import annotations

import re
from math import prod

from skyline.errors import UsageError
from skyline.graph.graph import Graph
from skyline.graph.insertion import InsertedGpuWork, insert_gpu_work
from skyline.graph.launching import launches
from skyline.graph.selection import select
from skyline.graph.task import PHASE, Task, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.constant import FLOAT_BYTES, Constant
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import shapes

_BYTES = Constant.at(2.0, "a number in 16 bits, which is kept for the backward pass")
_VALUES = {"fp16": _BYTES.value, "fp8": _BYTES.value / 2}
_KEPT = re.compile(r"relu|gelu|silu|tanh|sigmoid|batch_norm|layer_norm|group_norm|pool", re.IGNORECASE)
"""Operators that keep their input or their output."""
_LEAST_US = Constant.at(2.0, "an assumption: the start and end of a kernel, in µs")
_SLOWER = Constant(
    1.0,
    0.8,
    2.0,
    "an assumption: time of a conversion over that of its bytes at the bandwidth of the data sheet",
)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A kept tensor: the kernel that computes it, the kernel that needs it again, and its number of elements."""

    forward: int
    backward: int
    numbers: float


@dataclass(frozen=True, slots=True)
class CompressedActivations(UsualWhatIf):
    """Adds a conversion after each layer that keeps a tensor, and one before its backward pass.

    Gist does this with reduced precision (Jain and others, 2018): computation stays in 32 bits.
    """

    name: str = "compressed_activations"
    training_only: bool = True
    semantics: Semantics = Semantics.NUMERICS

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"keep activations in {value or 'fp16'} until the backward pass"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to activations in 32 bits on a known GPU whose backward work is known."""
        # A trace, which has no script, does not give the sizes of activations.
        if not subject.script.trace.shapes and subject.on_gpu:
            return Applicability.no("the sizes of activations were not recorded")
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        if gpu(subject) is None:
            return Applicability.no("the bandwidth of the GPU is not known: see skyline gpus")
        if not _kept(subject, subject.graph_of(self.grain)):
            return Applicability.no("no activation in float32 is known to be kept for the backward pass")
        return Applicability(True, values=tuple(_VALUES), default="fp16")

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Insert the conversions, and shrink the kept tensors."""
        if value not in _VALUES:
            raise UsageError(
                f"{self.name}={value} is not possible", hint=f"Possible: {self.name}={', '.join(_VALUES)}."
            )
        kept = _kept(subject, scenario.graph)
        larger = scenario.batch_factor(subject)
        cases = (
            _converted(subject, scenario.graph, kept, larger, _VALUES[value], slower)
            for slower in _SLOWER.ends
        )
        steps = max(1, subject.steps)
        # Only the activations of one part exist at a time.
        numbers = scenario.pass_factor(subject) * sum(one.numbers for one in kept) / steps
        saved = (FLOAT_BYTES.value - _VALUES[value]) * numbers
        largest = (
            FLOAT_BYTES.value
            * scenario.pass_factor(subject)
            * max((one.numbers for one in kept), default=0.0)
        )
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                "each conversion reads and writes once, at the bandwidth of the GPU",
                f"training tolerates activations of {8 * _VALUES[value]:.0f} bits in the backward pass",
            ),
            memory=lambda memory: memory.less(
                "activations", Interval(max(0.0, saved - largest), 0.5 * max(0.0, saved - largest), saved)
            ),
        )


def _kept(subject: Subject, graph: Graph) -> list[_Tensor]:
    chosen = select(graph, kind=TaskKind.KERNEL, name=_KEPT, phase=(Phase.FORWARD, Phase.BACKWARD))
    tasks = graph.tasks
    backward: dict[tuple[int, int], int] = {}
    forward: dict[tuple[int, int], tuple[int, float]] = {}
    for task, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True):
        key = int(tasks.iteration[task]), int(tasks.module[task])
        if key[1] < 0:
            continue
        if tasks.phase[task] == PHASE[Phase.BACKWARD]:
            backward.setdefault(key, task)
        elif shape is not None and shape.inputs and shape.dtypes[:1] == ("float32",):
            forward.setdefault(key, (task, float(prod(shape.inputs[0]))))
    return [
        _Tensor(task, backward[key], numbers)
        for key, (task, numbers) in forward.items()
        if key in backward
    ]  # fmt: skip


def _converted(
    subject: Subject, graph: Graph, kept: list[_Tensor], larger: float, narrow: float, slower: float
) -> Graph:
    spec = gpu(subject)
    assert spec is not None
    found = launches(graph)
    called = dict(zip(found.target.tolist(), found.source.tolist(), strict=True))
    work: list[InsertedGpuWork] = []
    for one in kept:
        us = slower * larger * one.numbers * (FLOAT_BYTES.value + narrow) / (spec.bandwidth_gb_s * 1e3)
        for name, task, before in (("compress", one.forward, False), ("decompress", one.backward, True)):
            launch = called.get(task)
            own = graph.tasks[task]
            if launch is not None:
                made = Task(
                    name, TaskKind.KERNEL, WorkClass.OTHER, own.lane, own.phase, own.iteration, own.line
                )
                after = _before_on_lane(graph, launch) if before else launch
                work.append(InsertedGpuWork(made, max(_LEAST_US.value, us), after))
    return insert_gpu_work(graph, work) if work else graph


def _before_on_lane(graph: Graph, task: int) -> int:
    """The preceding task on the same lane; the task itself if there is none."""
    before = int(graph.structure.before[task])
    return task if before < 0 else before


WHATIF = CompressedActivations()
