"""What if the inputs of the layers waited in the host's memory until their backward pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import prod

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.insertion import Insertion, insert
from skyline.graph.selection import select
from skyline.graph.task import HEAVY, PHASE, Task, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.base import Applicability, Scenario, Subject, UsualWhatIf
from skyline.whatif.constant import Constant
from skyline.whatif.cost.host_bus import IN, OUT, bytes_per_us, lane_beside
from skyline.whatif.number_formats import NARROW
from skyline.whatif.subject import shapes

_LEAST_BYTES = Constant.at(
    1 << 20, "the start of a copy over the bus takes as long as moving this much, and longer"
)
_IN_FLIGHT = Constant.at(2, "vDNN: one tensor is copied while the one of the layer behind is made")
_BIAS_FIRST = ("aten::addmm", "aten::baddbmm")


@dataclass(frozen=True, slots=True)
class _Kept:
    """The input of a layer: the kernels of its forward and its backward pass."""

    forward: int
    backward: int
    size_bytes: float


@dataclass(frozen=True, slots=True)
class OffloadActivations(UsualWhatIf):
    """Copies the input of each layer to the host after its forward kernel, and back before its backward one.

    vDNN (Rhu and others, 2016) does this: a copy back begins with the backward work of the next layer. A
    layer starts its forward pass when the copy of the last layer but one is done, so that memory is free
    again.
    """

    name: str = "offload_activations"
    training_only: bool = True
    words: str = "keep the inputs of layers in the host's memory until the backward pass"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to products and convolutions on a GPU whose forward and backward work are known."""
        # A trace, which has no script, does not give the sizes of activations.
        if not subject.script.trace.shapes and subject.on_gpu:
            return Applicability.no("the sizes of activations were not recorded")
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        if not _kept(subject, subject.graph_of(self.grain)):
            return Applicability.no("no layer keeps a large input whose backward work was recorded")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Insert the copies on a lane for each direction of the bus."""
        graph = scenario.graph
        larger = scenario.batch_factor(subject)
        width = 0.5 if scenario.product_format in NARROW else 1.0
        kept = {
            iteration: [
                _Kept(one.forward, one.backward, larger * width * one.size_bytes) for one in tensors
            ]
            for iteration, tensors in _kept(subject, graph).items()
        }  # fmt: skip
        cases = (_copied(graph, kept, bytes_per_us(subject, end)) for end in ("value", "high", "low"))
        saved = _saved(next(iter(kept.values()))) if kept else Interval.exact(0.0)
        saved = saved.scaled(1 / scenario.parts)
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                "copies use pinned memory of the host, and streams of their own",
                "the bus carries nothing else meanwhile, and other GPUs do not share it",
            ),
            memory=lambda memory: memory.less("activations", saved),
        )


def _kept(subject: Subject, graph: Graph) -> dict[int, list[_Kept]]:
    """The layer inputs by iteration, in the order of the forward pass; without the last, which is needed at once."""
    heavy = select(graph, kind=TaskKind.KERNEL, work=HEAVY, phase=(Phase.FORWARD, Phase.BACKWARD))
    tasks = graph.tasks
    sizes = dict(zip(heavy.tolist(), map(_input_bytes, shapes(subject, graph, heavy)), strict=True))
    backward: dict[tuple[int, int], int] = {}
    forward: dict[tuple[int, int], int] = {}
    for task in heavy.tolist():
        key = int(tasks.iteration[task]), int(tasks.module[task])
        if key[1] >= 0:
            (forward if tasks.phase[task] == PHASE[Phase.FORWARD] else backward).setdefault(key, task)
    found: dict[int, list[_Kept]] = defaultdict(list)
    for key, task in forward.items():
        if key in backward and sizes[task] >= _LEAST_BYTES.value:
            found[key[0]].append(_Kept(task, backward[key], sizes[task]))
    return {iteration: tensors[:-1] for iteration, tensors in found.items() if len(tensors) > 1}


def _input_bytes(shape: OperatorShape | None) -> float:
    if shape is None or not shape.inputs:
        return 0.0
    # A bias comes before the input: ``addmm(bias, input, weight)``.
    place = 1 if shape.operator in _BIAS_FIRST and len(shape.inputs) > 1 else 0
    narrow = len(shape.dtypes) > place and shape.dtypes[place] in NARROW
    return prod(shape.inputs[place]) * (2.0 if narrow else 4.0)


def _copied(graph: Graph, kept: dict[int, list[_Kept]], rate: float) -> Graph:
    ahead = int(_IN_FLIGHT.value)
    insertions: list[Insertion] = []
    waits: list[Dependency] = []

    def copy(direction: str, one: _Kept, after: int, iteration: int) -> int:
        stream = graph.tasks.lanes[int(graph.tasks.lane[one.forward])]
        phase = Phase.FORWARD if direction == OUT else Phase.BACKWARD
        task = Task(
            direction, TaskKind.COPY, WorkClass.OTHER, lane_beside(stream, direction), phase, iteration
        )
        insertions.append(Insertion(task, one.size_bytes / rate, after))
        return len(graph) + len(insertions) - 1

    for iteration, tensors in kept.items():
        out: list[int] = []
        for place, one in enumerate(tensors):
            made = copy(OUT, one, one.forward, iteration)
            waits.append(Dependency(one.forward, made, Cause.EVENT))
            if place >= ahead:
                waits.append(Dependency(out[place - ahead], one.forward, Cause.EVENT))
            out.append(made)
        behind = -1
        for place in range(len(tensors) - 1, -1, -1):
            one = tensors[place]
            made = copy(IN, one, one.backward - 1, iteration)
            waits.append(Dependency(out[place], made, Cause.EVENT))
            if behind >= 0:
                waits.append(Dependency(behind, made, Cause.EVENT, from_start=True))
            waits.append(Dependency(made, one.backward, Cause.EVENT))
            behind = one.backward
    return insert(graph, insertions, waits) if insertions else graph


def _saved(tensors: Sequence[_Kept]) -> Interval:
    """The bytes that are not on the GPU at the peak: all except those in flight. Some would not be there anyway."""
    sizes = sorted(one.size_bytes for one in tensors)
    away = sum(sizes[: -int(_IN_FLIGHT.value)])
    return Interval(away, 0.5 * away, sum(sizes))


WHATIF = OffloadActivations()
