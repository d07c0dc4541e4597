"""The effect of autocast on each task of a GPU: products in 16 bits, less traffic, and the casts between formats."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph, scale
from skyline.graph.launching import launches_of
from skyline.graph.selection import Criteria, select
from skyline.graph.task import PHASE, WORK, TaskKind, WorkClass
from skyline.trace.record import PASSES, Phase
from skyline.whatif.catalogue.numerics.casts import (
    CAST_BYTES,
    KEEP_NARROW,
    KEEP_WIDE_ON_GPU,
    USUAL_CASTS,
    cast_calls,
    has_weight,
    heavy_tasks,
    launch_call_us,
    recorded,
)
from skyline.whatif.constant import Constant
from skyline.whatif.number_formats import NARROW, Factors, factors, gpu, gpu_bytes_per_us, in_format
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.recorded_norms import batch_norms
from skyline.whatif.subject import Subject, shapes

_WIDE = re.compile(
    r"softmax|layer_?norm|group_?norm|loss|nll|embedding|index|nccl|reduce|sum|pow|rsqrt|cumsum|memset|fill|zero|to_copy",
    re.IGNORECASE,
)
"""Work that stays in float32: the float32 list of autocast (PyTorch, automatic mixed precision, "ops that
autocast to float32"), lookups in float32 tables, exchanged gradients, and work without inputs."""
_WIDE_NORM = re.compile(r"layer_?norm|group_?norm|rms_?norm", re.IGNORECASE)
_ELEMENTWISE = re.compile(r"aten::(add|sub|mul|div)_?")
LIGHT = Constant(
    0.65,
    0.5,
    1.0,
    "half the bytes where the input is the result of a product: time of other kernels beyond the least",
)
_NARROW_PART = Constant(
    0.7,
    0.0,
    1.0,
    "an assumption: the part of the kernels between products whose inputs have 16 bits, in models with norms that "
    "autocast computes in float32; all of them have in other models",
)
_LEAST_US = Constant.at(2.0, "an assumption: the start and end of a kernel, in µs")
_CONVERTED_BYTES = Constant.at(4, "2 bytes are read and 2 written for each number")
_CONVERSIONS = Constant.at(
    0.5,
    "two conversions in 16 bits for each convolution, over the mean of the kernels between the convolutions",
    machine="a recording of ResNet-50 on an RTX 3060 Ti, which holds 414 in TF32",
)


def narrowed_on_gpu(
    subject: Subject, graph: Graph, target: str, *, converted: bool = False
) -> tuple[Graph, Graph, Graph]:
    """The graph of a GPU under autocast: likely, best and worst case.

    With ``converted``, images are converted to the layout of the GPU's matrix units for convolutions, and
    back.
    """
    heavy = heavy_tasks(subject, graph)
    light = _light(subject, graph)
    predicted = _as_predicted(subject, graph, heavy, light, target)
    if predicted is not None:
        as_they_are = np.ones(len(heavy))
        likely, least, most = (
            _on_gpu(subject, one, heavy, as_they_are, light, 1.0, casting, converted=False)
            for one, casting in zip(predicted, (1.0, 0.5, 1.5), strict=True)
        )
        return likely, least, most
    norms = batch_norms(subject, graph, target, "")
    if norms is not None:
        light = np.setdiff1d(light, norms[0])
    products = factors(subject, graph, heavy, target)
    part = _narrow_part(subject, graph)
    lighter = (part * LIGHT.value + 1 - part, LIGHT.low, part * LIGHT.high + 1 - part)
    likely, least, most = (
        _on_gpu(subject, graph, heavy, factor, light, *ends, converted=converted)
        for factor, ends in zip(products, zip(lighter, (1.0, 0.5, 1.5), strict=True), strict=True)
    )
    if norms is not None:
        chosen, factor_ends = norms
        likely, least, most = (
            scale(one, chosen, factor) for one, factor in zip((likely, least, most), factor_ends, strict=True)
        )
    return likely, least, most


def _as_predicted(
    subject: Subject, graph: Graph, heavy: Indices, light: Indices, target: str
) -> tuple[Graph, Graph, Graph] | None:
    """The graph with every kernel's predicted time in a step under autocast; None without a prediction.

    ``heavy`` kernels are in the target format, ``light`` ones only if their inputs are, and others stay in
    float32.
    """
    known = PredictedKernels.of(subject, graph)
    if known is None:
        return None
    is_heavy, is_light = np.isin(known.kernels, heavy), np.isin(known.kernels, light)
    narrow = [
        in_format(shape, target) if changes else shape
        for shape, changes in zip(known.shapes, is_heavy | is_light, strict=True)
    ]
    wide = [
        changed if is_product else shape
        for shape, changed, is_product in zip(known.shapes, narrow, is_heavy, strict=True)
    ]
    # Predicted together: predictors recognize a 16-bit step as a whole by its products.
    count = len(narrow)
    both = known.factors([*known.shapes, *known.shapes], [*narrow, *wide])
    some_wide = any(_WIDE_NORM.search(shape.operator) for shape in known.shapes)
    part = _NARROW_PART if some_wide else None

    def mixed(ends: np.ndarray, narrow_part: float) -> np.ndarray:
        return narrow_part * ends[:count] + (1 - narrow_part) * ends[count:]

    factors = Factors(
        mixed(both.likely, 1.0 if part is None else part.value),
        mixed(both.least, 1.0 if part is None else part.high),
        mixed(both.most, 1.0 if part is None else part.low),
    )
    return factors.applied(graph, known.kernels)


def _narrow_part(subject: Subject, graph: Graph) -> float:
    """The share of elements between products that have 16 bits under autocast, by forward operators.

    A sum of numbers in 16 and 32 bits has 32 bits. Therefore, if norms are computed in float32, elementwise
    sums and products stay in float32. 1 if shapes are unknown.
    """
    forward = select(graph, phase=Phase.FORWARD, kind=TaskKind.CPU, work=WorkClass.OTHER)
    codes: list[int] = graph.tasks.name[forward].tolist()
    names = [graph.tasks.names[code] for code in codes]
    called = list(zip(names, shapes(subject, graph, forward), strict=True))
    follows_norms = any(_WIDE_NORM.search(name) for name, _ in called)
    narrow = wide = 0
    for name, shape in called:
        if shape is None or not shape.inputs:
            continue
        if KEEP_WIDE_ON_GPU.search(name) or (follows_norms and _ELEMENTWISE.fullmatch(name)):
            wide += prod(shape.inputs[0])
        elif KEEP_NARROW.search(name) or _ELEMENTWISE.fullmatch(name):
            narrow += prod(shape.inputs[0])
    return narrow / (narrow + wide) if narrow else 1.0


def _on_gpu(
    subject: Subject,
    graph: Graph,
    heavy: Indices,
    factor: npt.NDArray[np.float64],
    light: Indices,
    lighter: float,
    casting: float,
    *,
    converted: bool,
) -> Graph:
    durations = graph.durations.copy()
    durations[heavy] *= factor
    beyond = np.maximum(0.0, durations[light] - _LEAST_US.value)
    least = durations[light] * _least_part(subject, graph, light)
    durations[light] = np.maximum(durations[light] - (1 - lighter) * beyond, least)
    weighted = heavy[has_weight(subject, graph, heavy)]
    durations[weighted] += casting * _cast_us(subject, graph, weighted)
    if converted:
        images = heavy[graph.tasks.work[heavy] == WORK[WorkClass.CONVOLUTION]]
        durations[images] += casting * _conversions_us(subject, graph, images, light)
    host_us = launch_call_us(graph)
    for phase, casts in cast_calls(subject, graph, weighted).items():
        called = launches_of(graph, weighted[graph.tasks.phase[weighted] == PHASE[phase]])
        durations[called] += casting * casts * host_us
    return graph.with_times(durations=durations)


def _least_part(subject: Subject, graph: Graph, light: Indices) -> Times:
    """The share of a kernel's time in which half of its bytes move at the bandwidth of the data sheet."""
    spec = gpu(subject)
    if spec is None:
        return np.zeros(len(light))
    moved = [0.0 if one is None else float(one.bytes_moved) for one in shapes(subject, graph, light)]
    least_us = np.array(moved, np.float64) / (spec.bandwidth_gb_s * 1e3)
    longer_us = np.maximum(graph.durations[light], least_us)
    return 0.5 * np.divide(least_us, longer_us, out=np.zeros(len(light)), where=longer_us > 0)


def _conversions_us(
    subject: Subject, graph: Graph, images: Indices, light: Indices
) -> npt.NDArray[np.float64]:
    """The time in µs to read and write the two largest tensors of each convolution once, in another layout."""
    rate = gpu_bytes_per_us(subject)
    between = _CONVERSIONS.value * float(graph.durations[light].mean()) if len(light) else 0.0
    found = np.full(len(images), between)
    for place, shape in enumerate(shapes(subject, graph, images)):
        if shape is not None:
            sizes = sorted(prod(each) for each in (*shape.inputs, *shape.outputs) if len(each) == 4)
            found[place] = _CONVERTED_BYTES.value * sum(sizes[-2:]) / rate
    return np.maximum(2 * _LEAST_US.value, found)


def _light(subject: Subject, graph: Graph) -> Indices:
    criteria = Criteria(work=WorkClass.OTHER, phase=PASSES, kind=TaskKind.KERNEL)
    chosen = recorded(subject, graph, select(graph, criteria))
    chosen = chosen[~graph.tasks.named(_WIDE.search)[chosen]]
    known = shapes(subject, graph, chosen)
    narrow = [shape is not None and any(name in NARROW for name in shape.dtypes) for shape in known]
    return chosen[~np.array(narrow, np.bool_)]


def _cast_us(subject: Subject, graph: Graph, weighted: Indices) -> npt.NDArray[np.float64]:
    rate = gpu_bytes_per_us(subject)
    forward = graph.tasks.phase[weighted] == PHASE[Phase.FORWARD]
    casts = np.where(forward, USUAL_CASTS[Phase.FORWARD], USUAL_CASTS[Phase.BACKWARD])
    return np.maximum(
        casts * _LEAST_US.value, CAST_BYTES.value * _cast_elements(subject, graph, weighted) / rate
    )


def _cast_elements(subject: Subject, graph: Graph, weighted: Indices) -> npt.NDArray[np.float64]:
    """The elements to cast: each product's weight, and half of its input, as half of all inputs have 16 bits."""
    if subject.profile is None:
        return np.zeros(len(weighted))
    found: list[float] = []
    for shape in shapes(subject, graph, weighted):
        sizes = [prod(each) for each in shape.inputs if len(each) > 1] if shape is not None else []
        weight = min(sizes, default=0)
        found.append(weight + 0.5 * (max(sizes, default=0) if len(sizes) > 1 else 0))
    return np.array(found, np.float64)
