"""The effect of autocast on each task: products in 16 bits, less traffic, and the casts between formats."""

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
from skyline.interval import ENDS, Interval
from skyline.trace.kineto.category import GPU_WORK
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.catalogue.numerics.cast_calls import USUAL_CASTS, call_us, cast_calls
from skyline.whatif.catalogue.numerics.narrow_trials import (
    iteration_factors,
    of_activations,
    python_factors,
    tried_factors,
    wide_inputs,
)
from skyline.whatif.catalogue.numerics.predicted_narrowing import as_predicted
from skyline.whatif.constant import EXAMPLES, XEON, Constant
from skyline.whatif.cost.thread_scaling import gained, threads_of
from skyline.whatif.number_formats import NARROW, factors, gpu
from skyline.whatif.recorded_norms import batch_norms
from skyline.whatif.subject import Subject, shapes

_HEAVY = (WorkClass.MATMUL, WorkClass.CONVOLUTION, WorkClass.ATTENTION)
_PASSES = (Phase.FORWARD, Phase.BACKWARD)
_WIDE = re.compile(
    r"softmax|layer_?norm|group_?norm|loss|nll|embedding|index|nccl|reduce|sum|pow|rsqrt|cumsum|memset|fill|zero|to_copy",
    re.IGNORECASE,
)
"""Work that stays as wide as it is: the float32 list of autocast (PyTorch, automatic mixed precision, "ops that
autocast to float32"), lookups in float32 tables, gradients that are exchanged, and what has no input."""
_KEEP_WIDE_ON_GPU = re.compile(r"softmax|layer_norm|group_norm|rms_norm|loss|aten::pow")
_KEEP_WIDE_ON_CPU = re.compile(r"layer_norm|group_norm|rms_norm")
_WIDE_NORM = re.compile(r"layer_norm|group_norm|rms_norm")
_ELEMENTWISE = re.compile(r"aten::(add|sub|mul|div)_?")
_KEEP_NARROW = re.compile(r"relu|gelu|silu|sigmoid|tanh|dropout|pool|batch_norm|softmax")
"""Operators that keep their inputs in float32, by autocast's lists for either device, or in 16 bits. Batch norms take
either format."""
LIGHT = Constant(
    0.65,
    0.5,
    1.0,
    "half the bytes where the input is the result of a product: time of other kernels beyond the least",
)
_LEAST_US = Constant.at(2.0, "an assumption: the start and end of a kernel, in µs")
_CAST_BYTES = Constant.at(6, "4 bytes are read and 2 written for each number, or the other way round")
_CONVERTED_BYTES = Constant.at(4, "2 bytes are read and 2 written for each number")
_CONVERSIONS = Constant.at(
    0.5,
    "two conversions in 16 bits for each convolution, over the mean of the kernels between the convolutions",
    machine="a recording of ResNet-50 on an RTX 3060 Ti, which holds 414 in TF32",
)
_USUAL_BYTES_PER_US = Constant.at(500e3, "an assumption for a GPU of unknown bandwidth: 500 GB/s")
_CPU_CAST_US = Constant.at(6.0, "an assumption: µs to call a cast on a CPU")
_CPU_BYTES_PER_US = Constant.at(20e3, "an assumption: 20 GB/s between a core and memory")
NATIVE_CPU = Constant(
    0.45,
    0.3,
    0.75,
    "bfloat16 over float32: linear layers 0.35 to 0.5, batches of small matrices 0.6 to 0.7, convolutions 0.2 to 0.9",
    machine="a CPU with AVX512-BF16",
)
CPU_ATTENTION = Constant(
    1.1,
    0.85,
    1.4,
    "fused attention in bfloat16 over float32 on CPUs, with and without instructions for it",
    machine="CPUs with and without AVX512-BF16",
)
_CPU_ATTENTION_ROW_US = Constant(
    1.7,
    0.3,
    2.2,
    "µs more in its backward pass for each position of each head: 1.7 up to 128 positions, at widths of 16 to 96",
    machine="a CPU with AVX512-BF16",
)
_LONG_ROWS = Constant.at(192, "``sdp_flash`` of PyTorch on CPUs: from this many positions blocks are larger")
_LONG_ROW_SHARE = Constant.at(
    0.35, "the time of such a position over that of one in a short row", machine="a CPU with AVX512-BF16"
)
_CPU_ROWS_PART = Constant.at(0.9, "an assumption: the part of that which threads divide")
_WITHIN = "operators within whole scripts, on tensors too large for a core's caches: half the bytes come from memory"
_CPU_LIGHT = {
    "aten::batch_norm": Constant(0.4, 0.3, 0.8, _WITHIN, EXAMPLES, XEON),
    "NativeBatchNormBackward0": Constant(0.8, 0.65, 0.9, _WITHIN, EXAMPLES, XEON),
    "aten::relu": Constant(0.5, 0.4, 1.0, _WITHIN, EXAMPLES, XEON),
    "aten::relu_": Constant(0.5, 0.4, 1.0, _WITHIN, EXAMPLES, XEON),
    "aten::gelu": Constant(0.55, 0.5, 1.0, _WITHIN, EXAMPLES, XEON),
    "GeluBackward0": Constant(0.7, 0.6, 1.0, _WITHIN, EXAMPLES, XEON),
}
"""With their tensors in a cache most of these take as long as before; batch normalization is faster anyway."""
_CPU_LIGHT_FROM = 1 << 19
"""Numbers in such a tensor: two megabytes in float32."""
_TRIED = Constant(
    1.0, 0.8, 1.25, "an assumption: within a script tensors are in other caches than when tried by itself"
)
_IN_PLACE = Constant(
    1.0, 0.9, 1.12, "an assumption: what was tried within the script is nearer than what was tried by itself"
)
EMULATED_CPU = Constant(
    2.3,
    1.7,
    3.0,
    "oneDNN computes bfloat16 with AVX-512 instructions for float32: 1.9 to 2.8 times the time",
    machine="a CPU with AVX-512 and no bfloat16",
)


def heavy_tasks(subject: Subject, graph: Graph) -> Indices:
    """Work of matrix units in the passes over the model: kernels with a GPU, operators without one."""
    if subject.on_gpu:
        return _recorded(subject, graph, select(graph, work=_HEAVY, phase=_PASSES, kind=TaskKind.KERNEL))
    return select(graph, work=_HEAVY, phase=_PASSES, kind=TaskKind.CPU)


def narrowed(
    subject: Subject, graph: Graph, target: str, larger: float = 1.0, *, converted: bool = False
) -> tuple[Graph, Graph, Graph]:
    """The graph under autocast, of a batch so much larger: the likely one, the best and the worst case.

    ``converted``: a GPU's convolutions have images brought into the layout of its matrix units, and back.
    """
    heavy = heavy_tasks(subject, graph)
    if not subject.on_gpu:
        in_place = iteration_factors(subject, graph, target, larger)
        heavy = heavy[~np.isfinite(in_place[heavy])]
        tried = tried_factors(subject, graph, heavy, larger)
        pythons = python_factors(subject, graph, target)
        likely, least, most = (
            _in_place(
                _on_cpu(subject, graph, heavy, tried, in_place, end, larger),
                in_place,
                pythons,
                getattr(_IN_PLACE, end),
            )
            for end in ENDS
        )
        return likely, least, most
    light = _light(subject, graph)
    predicted = as_predicted(subject, graph, heavy, light, target)
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


def emulated(features: tuple[str, ...]) -> bool:
    """True if a CPU with these instruction sets has none for bfloat16."""
    return not any(feature in features for feature in ("amx_bf16", "avx512_bf16"))


def kept_factor(subject: Subject, graph: Graph) -> Interval:
    """Activations under autocast over those without: the inputs of products become half as large.

    Tensors that norms, softmax and losses keep stay in float32. Without shapes a range.
    """
    # Of a recorded GPU the operators have the shapes of all their tensors, and only some of the kernels.
    predicted = subject.profile is not None and subject.profile.prediction is not None
    forward = select(graph, phase=Phase.FORWARD, kind=TaskKind.KERNEL if predicted else TaskKind.CPU)
    keeps_wide = _KEEP_WIDE_ON_GPU if subject.on_gpu else _KEEP_WIDE_ON_CPU
    narrow = wide = 0
    tasks = graph.tasks
    heavy = [WORK[one] for one in _HEAVY]
    for index, shape in zip(forward.tolist(), shapes(subject, graph, forward), strict=True):
        if shape is None or not shape.inputs or not shape.dtypes or shape.dtypes[0] != "float32":
            continue
        name = tasks.names[int(tasks.name[index])]
        if tasks.work[index] in heavy:
            narrow += prod(_activation(shape))
        elif keeps_wide.search(name):
            wide += prod(shape.inputs[0])
        elif _KEEP_NARROW.search(name):
            narrow += prod(shape.inputs[0])
    if not narrow + wide:
        return Interval(0.65, 0.5, 0.9)
    value = (0.5 * narrow + wide) / (narrow + wide)
    return Interval(value, max(0.5, value - 0.15), min(1.1, value + 0.15))


def _narrow_part(subject: Subject, graph: Graph) -> float:
    """The part of the elements between products that have 16 bits under autocast, by forward operators.

    A sum of numbers in 16 and 32 bits has 32. Where norms are computed in float32, sums and products element by element
    therefore stay as wide. 1 where no shapes tell.
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
        if _KEEP_WIDE_ON_GPU.search(name) or (follows_norms and _ELEMENTWISE.fullmatch(name)):
            wide += prod(shape.inputs[0])
        elif _KEEP_NARROW.search(name) or _ELEMENTWISE.fullmatch(name):
            narrow += prod(shape.inputs[0])
    return narrow / (narrow + wide) if narrow else 1.0


def weight_copies_bytes(subject: Subject, graph: Graph) -> float | None:
    """The 16-bit copies of the weights that an iteration multiplies with; None where no shapes tell.

    Tables that are looked up and scales of norms stay as they are.
    """
    heavy = heavy_tasks(subject, graph)
    forward = heavy[_has_weight(subject, graph, heavy)]
    forward = forward[graph.tasks.phase[forward] == PHASE[Phase.FORWARD]]
    known = [shape for shape in shapes(subject, graph, forward) if shape is not None]
    if not known:
        return None
    sizes = ([prod(each) for each in shape.inputs if len(each) > 1] for shape in known)
    return 2.0 * sum(min(each) for each in sizes if each) / subject.steps


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
    weighted = heavy[_has_weight(subject, graph, heavy)]
    durations[weighted] += casting * _cast_us(subject, graph, weighted)
    if converted:
        images = heavy[graph.tasks.work[heavy] == WORK[WorkClass.CONVOLUTION]]
        durations[images] += casting * _conversions_us(subject, graph, images, light)
    host_us = call_us(graph)
    for phase, casts in cast_calls(subject, graph, weighted).items():
        called = launches_of(graph, weighted[graph.tasks.phase[weighted] == PHASE[phase]])
        durations[called] += casting * casts * host_us
    return graph.with_times(durations=durations)


def _least_part(subject: Subject, graph: Graph, light: Indices) -> Times:
    """The part of a kernel's time in which half of its bytes move at the bandwidth of the data sheet."""
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
    """Time to read and write the two largest tensors of each convolution once, in another layout."""
    spec = gpu(subject)
    rate = spec.bandwidth_gb_s * 1e3 if spec is not None else _USUAL_BYTES_PER_US.value
    between = _CONVERSIONS.value * float(graph.durations[light].mean()) if len(light) else 0.0
    found = np.full(len(images), between)
    for place, shape in enumerate(shapes(subject, graph, images)):
        if shape is not None:
            sizes = sorted(prod(each) for each in (*shape.inputs, *shape.outputs) if len(each) == 4)
            found[place] = _CONVERTED_BYTES.value * sum(sizes[-2:]) / rate
    return np.maximum(2 * _LEAST_US.value, found)


def _on_cpu(
    subject: Subject,
    graph: Graph,
    heavy: Indices,
    tried: npt.NDArray[np.float64],
    in_place: Times,
    end: str,
    larger: float,
) -> Graph:
    profile = subject.profile
    slow = profile is not None and emulated(profile.environment.cpu_features)
    factor: float = getattr(EMULATED_CPU if slow else NATIVE_CPU, end)
    durations = graph.durations.copy()
    known = np.isfinite(tried)
    durations[heavy[known]] *= tried[known] * getattr(_TRIED, end)
    unknown = heavy[~known]
    attention = unknown[graph.tasks.work[unknown] == WORK[WorkClass.ATTENTION]]
    durations[np.setdiff1d(unknown, attention)] *= factor
    durations[attention] *= getattr(CPU_ATTENTION, end)
    backward = attention[graph.tasks.phase[attention] == PHASE[Phase.BACKWARD]]
    backward_us: float = (
        getattr(_CPU_ATTENTION_ROW_US, end) * larger * gained(_CPU_ROWS_PART.value, threads_of(subject))
    )
    durations[backward] += backward_us * _attention_rows(subject, graph, backward)
    if not slow:
        following = _light_on_cpu(subject, graph, larger)
        following = following[~np.isfinite(in_place[following])]
        lighter = [getattr(_CPU_LIGHT[graph.tasks.names[name]], end) for name in graph.tasks.name[following]]
        durations[following] *= np.array(lighter, np.float64)
    has_weight = _has_weight(subject, graph, heavy)
    if known.any():
        weighted = heavy[has_weight & known]
        durations[weighted] += _casts_on_cpu_us(subject, graph, weighted, larger)
        has_weight &= ~known
    weighted = heavy[has_weight]
    sizes = _cast_elements(subject, graph, weighted)
    durations[weighted] += 2 * _CPU_CAST_US.value + _CAST_BYTES.value * sizes / _CPU_BYTES_PER_US.value
    return graph.with_times(durations=durations)


def _in_place(graph: Graph, factors: Times, pythons: Times, sure: float) -> Graph:
    """Times tried in the script's own iterations, on top of those computed for other tasks."""
    known = np.isfinite(factors)
    durations = graph.durations.copy()
    durations[known] *= factors[known] * sure
    return graph.with_times(durations=durations, gaps=graph.gaps * pythons)


def _casts_on_cpu_us(
    subject: Subject, graph: Graph, weighted: Indices, larger: float
) -> npt.NDArray[np.float64]:
    """Time that each product needs for its weight to be cast, and its input where that is in float32.

    As much on the way back, where the gradients are cast: shared out among all, as which is whose is not seen there.
    """
    forward = graph.tasks.phase[weighted] == PHASE[Phase.FORWARD]
    cast_us = np.zeros(len(weighted))
    places = np.flatnonzero(forward)
    called = shapes(subject, graph, weighted[places])
    wide = wide_inputs(graph, weighted[places])
    for place, shape, is_wide in zip(places.tolist(), called, wide, strict=True):
        inputs = () if shape is None else shape.inputs
        sizes = [prod(each) for each in inputs if len(each) > 1] or [0]
        weight, largest = min(sizes), max(sizes)
        cast_us[place] = _CPU_CAST_US.value + _CAST_BYTES.value * weight / _CPU_BYTES_PER_US.value
        if is_wide:
            cast_us[place] += (
                _CPU_CAST_US.value + _CAST_BYTES.value * larger * largest / _CPU_BYTES_PER_US.value
            )
    if forward.any() and not forward.all():
        cast_us[~forward] = cast_us[forward].sum() / np.count_nonzero(~forward)
    return cast_us


def _light_on_cpu(subject: Subject, graph: Graph, larger: float) -> Indices:
    """Operators of the passes that have a factor of their own, on large tensors."""
    named = np.array([name in _CPU_LIGHT for name in graph.tasks.names], np.bool_)
    chosen = select(graph, phase=_PASSES, kind=TaskKind.CPU)
    chosen = chosen[named[graph.tasks.name[chosen]]]
    known = shapes(subject, graph, chosen)
    numbers = [prod(shape.inputs[0]) if shape is not None and shape.inputs else 0 for shape in known]
    return chosen[larger * np.array(numbers, np.float64) >= _CPU_LIGHT_FROM]


def _attention_rows(subject: Subject, graph: Graph, tasks: Indices) -> npt.NDArray[np.float64]:
    """By task, how many positions all heads have; those of long sequences count for less."""
    rows = np.zeros(len(tasks))
    for place, shape in enumerate(shapes(subject, graph, tasks)):
        sizes = next((one for one in shape.inputs if len(one) > 2), None) if shape is not None else None
        if sizes is not None:
            rows[place] = prod(sizes[:-1]) * (_LONG_ROW_SHARE.value if sizes[-2] >= _LONG_ROWS.value else 1.0)
    return rows


def _light(subject: Subject, graph: Graph) -> Indices:
    criteria = Criteria(work=WorkClass.OTHER, phase=_PASSES, kind=TaskKind.KERNEL)
    chosen = _recorded(subject, graph, select(graph, criteria))
    stays = np.array([_WIDE.search(name) is not None for name in graph.tasks.names], np.bool_)
    chosen = chosen[~stays[graph.tasks.name[chosen]]] if len(stays) else chosen
    known = shapes(subject, graph, chosen)
    narrow = [shape is not None and any(name in NARROW for name in shape.dtypes) for shape in known]
    return chosen[~np.array(narrow, np.bool_)]


def _recorded(subject: Subject, graph: Graph, chosen: Indices) -> Indices:
    """Without what a CUDA graph did in pauses that a trace shows: nobody recorded it."""
    if subject.recording is None:
        return chosen
    origin = np.maximum(graph.tasks.origin[chosen], 0)
    return chosen[np.isin(subject.recording.trace.category[origin], GPU_WORK)]


def _has_weight(subject: Subject, graph: Graph, heavy: Indices) -> npt.NDArray[np.bool_]:
    """Flags of products with a parameter: products of two activations have none."""
    if subject.profile is None:
        # A trace has many products of few names.
        return np.array([not of_activations(name) for name in graph.tasks.names], np.bool_)[
            graph.tasks.name[heavy]
        ]
    codes: list[int] = graph.tasks.name[heavy].tolist()
    called = zip(shapes(subject, graph, heavy), codes, strict=True)
    names = (graph.tasks.names[code] if shape is None else shape.operator for shape, code in called)
    return np.array([not of_activations(one) for one in names], np.bool_)


def _cast_us(subject: Subject, graph: Graph, weighted: Indices) -> npt.NDArray[np.float64]:
    spec = gpu(subject)
    rate = spec.bandwidth_gb_s * 1e3 if spec is not None else _USUAL_BYTES_PER_US.value
    forward = graph.tasks.phase[weighted] == PHASE[Phase.FORWARD]
    casts = np.where(forward, USUAL_CASTS[Phase.FORWARD], USUAL_CASTS[Phase.BACKWARD])
    return np.maximum(
        casts * _LEAST_US.value, _CAST_BYTES.value * _cast_elements(subject, graph, weighted) / rate
    )


def _cast_elements(subject: Subject, graph: Graph, weighted: Indices) -> npt.NDArray[np.float64]:
    """Of the weight, and of every other input: half of them are results of products and 16 bits wide already."""
    if subject.profile is None:
        return np.zeros(len(weighted))
    found: list[float] = []
    for shape in shapes(subject, graph, weighted):
        sizes = [prod(each) for each in shape.inputs if len(each) > 1] if shape is not None else []
        weight = min(sizes, default=0)
        found.append(weight + 0.5 * (max(sizes, default=0) if len(sizes) > 1 else 0))
    return np.array(found, np.float64)


def _activation(shape: OperatorShape) -> tuple[int, ...]:
    return max((each for each in shape.inputs if len(each) > 1), key=prod, default=())
