"""SKY307: neighbouring independent kernels use different resources of the GPU."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import spared_ms, step_ms
from skyline.findings.lines import dearest_lines
from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.launching import launches
from skyline.graph.task import KIND, PHASE, WORK, TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.kineto.category import Category
from skyline.trace.record import OperatorShape, Phase
from skyline.units import format_ms, plural
from skyline.whatif.base import Grain
from skyline.whatif.catalogue.host.traffic import traffic
from skyline.whatif.cost.factored_layers import Product
from skyline.whatif.number_formats import formats, gpu
from skyline.whatif.recording import Recording
from skyline.whatif.subject import Subject, shapes

_SHARE = 0.02
"""Least share of the iteration. What-ifs below it are omitted from short lists, too."""
_ROOM = 1 / 3
"""Assumed share of a multiprocessor's warps with which a kernel keeps the memory busy."""
_LINES = 4
_REDUCTION = re.compile(r"\breduce_kernel|\baten::sum\b")
"""PyTorch's sum over rows."""
_PART = re.compile(r"splitKreduce|^Memset")
"""The sum over the parts into which cuBLAS splits a product, and the clearing of a kernel's own counters."""
_MOST_PASSED = 2
"""Largest number of such tasks between two kernels: one that ends the first, one that begins the second."""
_LINEAR_NODE = re.compile(r"evaluate_function: (Addmm|Linear)Backward")
_PRODUCT, _OTHER = WORK[WorkClass.MATMUL], WORK[WorkClass.OTHER]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two consecutive kernels of a stream, and the largest saving from running them as one kernel."""

    product: int
    other: int
    saved_us: float


@dataclass(frozen=True, slots=True)
class IndependentKernels:
    """Running each such pair as one kernel could save more than a fiftieth of the iteration.

    HFuse (Li and others, 2022, *Automatic Horizontal Fusion for GPU Kernels*, CGO) writes such kernels.
    """

    code: str = "SKY307"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line with the largest part of it; the cost is a bound, and there is no what-if."""
        if not subject.on_gpu:
            return None
        graph = subject.graph_of(Grain.OPERATORS)
        kernels = _Kernels(subject, graph)
        pairs = _apart([pair for one, two in _neighbours(graph) if (pair := kernels.pair(one, two))])
        if not pairs:
            return None
        durations = graph.durations.copy()
        for pair in pairs:
            shorter = min(pair.product, pair.other, key=lambda task: float(graph.durations[task]))
            durations[shorter] -= pair.saved_us
        cost_ms = spared_ms(subject, graph, graph.with_times(durations=durations))
        if cost_ms <= _SHARE * step_ms(subject):
            return None
        members = np.array([task for pair in pairs for task in (pair.product, pair.other)], np.int64)
        took_ms = float(graph.durations[members].sum()) / 1e3 / max(1, subject.steps)
        lines = dearest_lines(
            graph,
            np.array([pair.product for pair in pairs], np.int64),
            np.array([pair.saved_us for pair in pairs], np.float64),
        )
        return Finding.at(
            self.code,
            "matrix products could run together with independent memory-bound kernels: this saves at most "
            f"{cost_ms / step_ms(subject):.0%} of the iteration",
            lines[0][0] if lines else None,
            cost_ms,
            None,
            (
                Evidence(
                    f"{plural(len(pairs), 'pair')} in {plural(max(1, subject.steps), 'iteration')}, "
                    f"{format_ms(took_ms)} per iteration; {kernels.judged}"
                ),
                Evidence(
                    "assumed: both kernels of a pair run as one (horizontal fusion), which takes as long as the longer "
                    "kernel, the joint memory traffic or the joint arithmetic; no library has such kernels"
                ),
                *(
                    Evidence.at(
                        f"at most {format_ms(us / 1e3 / max(1, subject.steps))} of an iteration", line
                    )
                    for line, us in lines[:_LINES]
                ),
            ),
        )


def _neighbours(graph: Graph) -> list[tuple[int, int]]:
    """Pairs of consecutive kernels of the backward pass on a stream, without the parts of other kernels in between."""
    tasks, after = graph.tasks, graph.structure.after
    wanted = (tasks.kind == KIND[TaskKind.KERNEL]) & (tasks.phase == PHASE[Phase.BACKWARD])
    part = tasks.named(_PART.search)
    following = after
    for _ in range(_MOST_PASSED):
        following = np.where((following >= 0) & part[following], after[following], following)
    first = np.flatnonzero(wanted & ~part & (following >= 0))
    second = following[first]
    kept = wanted[second] & (tasks.iteration[first] == tasks.iteration[second])
    return list(zip(first[kept].tolist(), second[kept].tolist(), strict=True))


def _apart(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Pairs without common kernels, largest saving first."""
    taken: set[int] = set()
    found: list[_Pair] = []
    for pair in sorted(pairs, key=lambda one: (-one.saved_us, one.product)):
        if not taken & {pair.product, pair.other}:
            taken |= {pair.product, pair.other}
            found.append(pair)
    return found


@dataclass(frozen=True)
class _Kernels:
    """The kernels of a graph, and the facts known about them."""

    subject: Subject
    graph: Graph

    def pair(self, first: int, second: int) -> _Pair | None:
        """The pair of two neighbours. None if one depends on the other, or if both need the same resource."""
        tasks = self.graph.tasks
        works = int(tasks.work[first]), int(tasks.work[second])
        if sorted(works) != sorted((_PRODUCT, _OTHER)):
            return None
        product, other = (first, second) if works[0] == _PRODUCT else (second, first)
        if not self._independent(first, second, product, other):
            return None
        memory_us, arithmetic_us = self._roofline_us(product)
        other_memory_us, other_arithmetic_us = self._roofline_us(other)
        if memory_us > arithmetic_us or other_arithmetic_us > other_memory_us:
            return None
        if not self._has_room(product):
            return None
        took_us = [float(self.graph.durations[task]) for task in (product, other)]
        least_us = max(*took_us, memory_us + other_memory_us, arithmetic_us + other_arithmetic_us)
        saved_us = sum(took_us) - least_us
        return _Pair(product, other, saved_us) if saved_us > 0 else None

    @property
    def judged(self) -> str:
        """The basis of the judgement of resources, as the end of a sentence."""
        spec = gpu(self.subject)
        by = (
            f"by sizes and the data sheet of {spec.name} where sizes are known, else by names"
            if spec is not None and self.subject.profile is not None
            else "by the names of the kernels, sizes are not known"
        )
        seen = "occupancy as recorded" if bool((self._occupancy >= 0).any()) else "occupancy was not recorded"
        return f"judged {by}; {seen}"

    # Dependence of one kernel on the other.

    def _independent(self, first: int, second: int, product: int, other: int) -> bool:
        """True for two results of one linear layer's gradient, or for a weight gradient and an unrelated later kernel.

        Both follow from the chain rule: only the sum of parameter gradients reads them, and the gradients of
        one layer read the same incoming gradient.
        """
        name = self.graph.tasks.names[int(self.graph.tasks.name[other])]
        if _REDUCTION.search(name):
            return self._of_one_layer(first, second, other)
        return first == product and self._is_weight_gradient(product) and self._is_elsewhere(product, other)

    def _of_one_layer(self, first: int, second: int, reduction: int) -> bool:
        if self.subject.recording is not None:
            node = self._nodes.get(first, -1)
            return node >= 0 and node == self._nodes.get(second, -1)
        layer = self._linear(first)
        if layer is None or layer is not self._linear(second) or layer.options.get("bias") is not True:
            return False
        # If called twice, the layer may have separate incoming gradients.
        return first == reduction or layer.calls_per_iteration <= 1

    def _is_weight_gradient(self, product: int) -> bool:
        """True if the product's result has the size of its layer's weight and cannot be anything else."""
        layer, shape = self._linear(product), self._shape(product)
        if layer is None or shape is None:
            return False
        sides = {layer.options.get("in_features"), layer.options.get("out_features")}
        match shape.inputs[:2]:
            case ((rows, inner), (same, columns)):
                return inner == same and {rows, columns} == sides and inner not in sides
            case _:
                return False

    def _is_elsewhere(self, product: int, other: int) -> bool:
        """True if the other kernel is in another module's backward pass. The sum of gradients is in the layer's own."""
        modules = self.graph.tasks.module
        return int(modules[other]) >= 0 and int(modules[other]) != int(modules[product])

    def _linear(self, task: int) -> ModuleFact | None:
        code = int(self.graph.tasks.module[task])
        return self._linear_layers.get(self.graph.structure.modules[code]) if code >= 0 else None

    @cached_property
    def _linear_layers(self) -> dict[str, ModuleFact]:
        profile = self.subject.profile
        modules = () if profile is None else profile.modules
        return {one.path: one for one in modules if one.class_name == "Linear" and one.library}

    @cached_property
    def _nodes(self) -> dict[int, int]:
        """For each kernel of a trace, the row of the linear layer's gradient that launched it."""
        recording = self.subject.recording
        return {} if recording is None else _linear_nodes(recording, self.graph)

    # Resources that each kernel needs.

    def _roofline_us(self, task: int) -> tuple[float, float]:
        """The least time for memory traffic and for arithmetic in µs. 0 if unknown.

        One operator may launch several kernels. If its whole work takes longer than the kernel, the kernel
        does only a part.
        """
        spec, shape = gpu(self.subject), self._shape(task)
        if spec is None or shape is None:
            return 0.0, 0.0
        [name] = formats(self.subject, self.graph, np.array([task], np.int64))
        moved = _moved_bytes(shape)
        memory_us = moved / (spec.bandwidth_gb_s * 1e3)
        arithmetic_us = shape.flops / (spec.tflops_in(name) * 1e6)
        if max(memory_us, arithmetic_us) > float(self.graph.durations[task]):
            return 0.0, 0.0
        return memory_us, arithmetic_us

    def _shape(self, task: int) -> OperatorShape | None:
        [shape] = shapes(self.subject, self.graph, np.array([task], np.int64))
        return shape

    def _has_room(self, product: int) -> bool:
        """False if the product is known to leave too few warps for the other kernel."""
        return float(self._occupancy[product]) <= 100 * (1 - _ROOM)

    @cached_property
    def _occupancy(self) -> Indices:
        """Occupancy in percent by task. Below 0 if unknown, as in all profiles."""
        recording, origin = self.subject.recording, self.graph.tasks.origin
        if recording is None:
            return np.full(len(origin), -1)
        known = recording.trace.occupancy[np.maximum(origin, 0)]
        return np.where((origin >= 0) & np.isfinite(known), known, -1.0).astype(np.int64)


def _moved_bytes(shape: OperatorShape) -> int:
    match shape.inputs[-2:]:
        case ((rows, inner), (same, columns)) if shape.flops and inner == same:
            return shape.bytes_moved or Product(rows, inner, columns).shape(shape.dtypes[-1]).bytes_moved
        case _:
            return shape.bytes_moved or traffic(shape).size_bytes


def _linear_nodes(recording: Recording, graph: Graph) -> dict[int, int]:
    trace, found = recording.trace, launches(graph)
    named = [code for code, text in enumerate(trace.strings) if _LINEAR_NODE.search(text)]
    rows = np.flatnonzero((trace.category == Category.CPU_OP) & np.isin(trace.name, named))
    by_thread: dict[int, list[int]] = {}
    for row, thread in zip(rows.tolist(), trace.thread[rows].tolist(), strict=True):
        by_thread.setdefault(thread, []).append(row)
    starts = {thread: trace.start_us[of].tolist() for thread, of in by_thread.items()}
    nodes: dict[int, int] = {}
    for source, target in zip(found.source.tolist(), found.target.tolist(), strict=True):
        call = int(recording.kineto.event[source])
        if call < 0 or int(trace.thread[call]) not in by_thread:
            continue
        thread, start_us = int(trace.thread[call]), float(trace.start_us[call])
        place = bisect_right(starts[thread], start_us) - 1
        if place >= 0:
            row = by_thread[thread][place]
            if start_us < float(trace.start_us[row] + trace.duration_us[row]):
                nodes[target] = row
    return nodes


RULE = IndependentKernels()
