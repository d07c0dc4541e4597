"""What if images were stored with their channels last."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.launching import launches_of
from skyline.graph.selection import Criteria, select
from skyline.graph.task import TaskKind, WorkClass
from skyline.interval import ENDS, Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.record import PASSES, OperatorShape, Phase
from skyline.whatif.base import (
    Applicability,
    Provenance,
    Scenario,
    Stage,
    Subject,
    UsualWhatIf,
)
from skyline.whatif.constant import EXAMPLES, XEON, Constant
from skyline.whatif.dropout import OTHER_DRAWS, draws
from skyline.whatif.number_formats import FLOAT32, NARROW, formats, in_format
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.recorded_norms import batch_norms
from skyline.whatif.subject import shapes

_LAST = "channels last"
"""The layout as the tracer writes it."""
CONVERSIONS = ("nchwToNhwc", "nhwcToNchw")
"""Kernels with which cuDNN converts tensors to the layout that matrix units read, and back."""
_PLAIN = "a GPU computes convolutions in plain float32 about as fast in either layout"
_ON_UNITS = Constant(
    0.9, 0.7, 1.05, "an assumption for convolutions on matrix units: there is no model of cuDNN's choice"
)
_WITHOUT_UNITS = Constant(1.0, 0.9, 1.15, "the same without matrix units")
_MICRO = "median and extremes of operators timed by themselves, over the usual layout"
_AVX512 = "a processor with AVX-512"
_ON_CPU = (
    ("max_pool", Phase.FORWARD, Constant(0.25, 0.06, 1.0, _MICRO, machine=_AVX512)),
    ("batch_norm", Phase.FORWARD, Constant(0.35, 0.2, 0.7, _MICRO, machine=_AVX512)),
    ("batchnorm", Phase.BACKWARD, Constant(0.75, 0.6, 0.95, _MICRO, machine=_AVX512)),
    ("relu", Phase.FORWARD, Constant(1.15, 0.9, 1.4, _MICRO, machine=_AVX512)),
    ("relu", Phase.BACKWARD, Constant(1.15, 0.9, 1.4, _MICRO, machine=_AVX512)),
)
"""Ratio of operators' times to those in the usual layout, by name and phase."""
_MNIST = ("pytorch/examples/mnist/main.py",)
_DENSE_ON_CPU = Constant(0.88, 0.7, 1.0, "time over that in the usual layout; the range after MNIST was measured",
                         (*EXAMPLES, *_MNIST), XEON)  # fmt: skip
_DEPTHWISE_ON_CPU = Constant(
    0.4, 0.15, 0.9, "ratio as above for depthwise convolutions, each measured alone", machine=_AVX512
)


@dataclass(frozen=True, slots=True)
class ChannelsLast(UsualWhatIf):
    """Scales convolutions and the operators between them, and removes conversions between layouts."""

    name: str = "channels_last"
    words: str = "images and convolutions in channels-last layout"
    stage: Stage = Stage.LAYOUT

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to convolutions over images that do not use this layout already."""
        graph = subject.graph_of(self.grain)
        chosen = _convolutions(subject, graph)
        if not len(chosen):
            return Applicability.no("no convolution was recorded")
        sizes = [
            shape.inputs[0] for shape in shapes(subject, graph, chosen) if shape is not None and shape.inputs
        ]
        if sizes and not any(len(one) == 4 for one in sizes):
            return Applicability.no("its convolutions are not over images (tensors of four dimensions)")
        if lie_channels_last(subject):
            return Applicability.no("its convolutions already use the channels-last layout")
        if subject.profile is None and not subject.on_gpu:
            return Applicability.no(
                "the trace of a CPU does not show the layout; profile the script to know it"
            )
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale each operator by the gain of its kind; memory may grow by one copy if an operator converts back."""
        graph = scenario.graph
        if subject.on_gpu:
            made, assumed, provenance = _on_gpu(subject, graph, scenario.product_format)
        else:
            made = tuple(scale(graph, *_factors(subject, graph, end)) for end in ENDS)
            assumed = ("every operator between the convolutions supports this layout",)
            provenance = Provenance.MODELLED
        if draws(graph):
            assumed = (*assumed, OTHER_DRAWS)
        spare = Interval(0.0, 0.0, _largest_bytes(subject, graph))
        return scenario.between(
            subject,
            *made,
            assumptions=assumed,
            memory=lambda memory: memory.more("activations", spare),
            provenance=provenance,
        )


def lie_channels_last(subject: Subject) -> bool:
    """True if the convolutions of a profile are known to be in this layout."""
    modules = () if subject.profile is None else subject.profile.modules
    layouts = [one.channels_last for one in modules if one.channels_last is not None and _is_large(one)]
    return bool(layouts) and all(layouts)


def _on_gpu(
    subject: Subject, graph: Graph, product_format: str
) -> tuple[tuple[Graph, Graph, Graph], tuple[str, ...], Provenance]:
    """The graphs by the predictor; otherwise with recorded conversions removed and convolutions within a range."""
    predicted = _as_predicted(subject, graph, product_format)
    if predicted is not None:
        return (
            predicted,
            ("every kernel between the convolutions keeps the layout that its images have",),
            Provenance.MODELLED,
        )
    narrow = product_format in NARROW
    conversions = select(graph, kind=TaskKind.KERNEL, name=CONVERSIONS)
    bare = scale(graph, launches_of(graph, conversions), 0.0, gaps=True)
    bare = scale(bare, conversions, 0.0, gaps=True)
    convolutions = _convolutions(subject, graph)
    on_units = [narrow or one != FLOAT32 for one in formats(subject, graph, convolutions)]
    cases = (
        (_ON_UNITS.value, _WITHOUT_UNITS.value),
        (_ON_UNITS.low, _WITHOUT_UNITS.low),
        (_ON_UNITS.high, _WITHOUT_UNITS.high),
    )
    likely, least, most = (
        scale(bare, convolutions, np.array([fast if one else slow for one in on_units], np.float64))
        for fast, slow in cases
    )
    norms = batch_norms(subject, graph, product_format, _LAST)
    if norms is not None:
        chosen, factors = norms
        likely, least, most = (
            scale(one, chosen, factor) for one, factor in zip((likely, least, most), factors, strict=True)
        )
    assumed = [
        "convolutions take between 30 % less and slightly more time: an assumed range, there is no model"
    ]
    if len(conversions):
        count = len(conversions) / max(1, subject.steps)
        assumed.append(f"the {count:.0f} conversions between layouts in a step are no longer needed")
    if norms is not None:
        assumed.append(
            "batch normalization keeps all of the GPU busy in this layout, not one block per channel"
        )
    if not all(on_units):
        assumed.append(_PLAIN)
    return (likely, least, most), tuple(assumed), Provenance.ASSUMED


def _as_predicted(subject: Subject, graph: Graph, product_format: str) -> tuple[Graph, Graph, Graph] | None:
    """The graphs with the predictor's times for kernels on images in this layout; None without a prediction."""
    known = PredictedKernels.of(subject, graph)
    if known is None:
        return None
    now = [
        in_format(one, product_format) if product_format in NARROW and _has_images(one) else one
        for one in known.shapes
    ]
    laid = [replace(one, layout=_LAST) if _has_images(one) else one for one in now]
    return known.factors(now, laid).applied(graph, known.kernels)


def _has_images(shape: OperatorShape) -> bool:
    return any(len(size) == 4 and size[2] * size[3] > 1 for size in (*shape.inputs, *shape.outputs))


def _factors(subject: Subject, graph: Graph, end: str) -> tuple[Indices, npt.NDArray[np.float64]]:
    """The affected operators of a CPU, and the factor of each."""
    factors = np.ones(len(graph))
    tasks = graph.tasks
    names = [name.lower() for name in tasks.names]
    for mark, phase, factor in _ON_CPU:
        chosen = select(graph, kind=TaskKind.CPU, phase=phase)
        meant = np.array([mark in name for name in names], np.bool_)
        factors[chosen[meant[tasks.name[chosen]]]] = getattr(factor, end)
    convolutions = _convolutions(subject, graph)
    factors[convolutions] = getattr(_DENSE_ON_CPU, end)
    factors[_depthwise(subject, graph, convolutions)] = getattr(_DEPTHWISE_ON_CPU, end)
    affected = np.flatnonzero(factors != 1)
    return affected, factors[affected]


def _convolutions(subject: Subject, graph: Graph) -> Indices:
    kind = TaskKind.KERNEL if subject.on_gpu else TaskKind.CPU
    return select(
        graph, Criteria(work=WorkClass.CONVOLUTION, kind=kind, phase=PASSES if not subject.on_gpu else None)
    )


def _depthwise(subject: Subject, graph: Graph, convolutions: Indices) -> Indices:
    """The convolutions whose filters see one channel each, and their backward pass, identified by its module."""
    tasks = graph.tasks
    forward = convolutions[tasks.phase[convolutions] == _code(Phase.FORWARD)]
    modules: set[int] = set()
    for index, shape in zip(forward.tolist(), shapes(subject, graph, forward), strict=True):
        sizes = shape.inputs if shape is not None else ()
        if len(sizes) > 1 and len(sizes[0]) == len(sizes[1]) == 4 and sizes[1][1] == 1 and sizes[0][1] > 1:
            modules.add(int(tasks.module[index]))
    modules.discard(-1)
    return convolutions[np.isin(tasks.module[convolutions], list(modules))]


def _largest_bytes(subject: Subject, graph: Graph) -> float:
    """The size of the largest four-dimensional tensor in the forward pass, in bytes."""
    forward = select(graph, phase=Phase.FORWARD)
    known = shapes(subject, graph, forward)
    sizes = (size for shape in known if shape is not None for size in shape.inputs if len(size) == 4)
    return 4.0 * max(map(prod, sizes), default=0)


def _code(phase: Phase) -> int:
    return list(Phase).index(phase)


def _is_large(module: ModuleFact) -> bool:
    """True if the layout of a module's weight can be recognised: one-pixel filters look the same in both layouts."""
    kernel = module.options.get("kernel_size")
    return not isinstance(kernel, tuple) or prod(kernel) > 1


WHATIF = ChannelsLast()
