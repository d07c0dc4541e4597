"""Times of operators that compute the same for several models at once, as ``torch.func.vmap`` batches them."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import numpy as np

from skyline.graph.column import Flags, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import KIND, PARTS, PHASE, WORK, Part, TaskKind, WorkClass, parts_of, work_class
from skyline.graph.threads import is_split
from skyline.interval import ENDS
from skyline.memory.growth import LARGE_BYTES
from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.base import Scenario
from skyline.whatif.catalogue.memory.batch_scaling import grown, growth
from skyline.whatif.catalogue.models.stacked_weights import by_model, provided_us, turned_us, updated_us
from skyline.whatif.constant import EPYC, XEON, Constant
from skyline.whatif.cost.embedding_rows import DENSE_GRADIENTS, cleared_shares
from skyline.whatif.cost.thread_scaling import CALL_US, PLAIN_PART, gained, threads_of
from skyline.whatif.number_formats import Factors, gpu
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.subject import Subject

_PASSES = (PHASE[Phase.FORWARD], PHASE[Phase.BACKWARD])
_OVER_THE_BUS = ("htod", "dtoh", "host to device", "device to host")
_OF_ACTIVATIONS = re.compile(r"bmm|matmul|einsum", re.IGNORECASE)
"""Products without a weight: the products of several models form a larger batch."""
_OF_WEIGHTS = re.compile("AccumulateGrad|" + "|".join(DENSE_GRADIENTS))
"""Other work on tensors of the size of a weight, which grows with the number of models, not with the batch."""
_OPERATOR = re.compile("::")
_NORMS = re.compile(r"(layer|batch|group|instance)_?norm|::bn_[fb]w", re.IGNORECASE)
"""Normalizations: batching decomposes them into their steps."""
_LAYER_NORMS = re.compile("layer_?norm", re.IGNORECASE)
"""Normalizations with a mean and a variance per sample: their steps process more small results."""
_LOSSES = re.compile(r"cross_?entropy|nll_?loss", re.IGNORECASE)
"""Classification losses: batched, each reads its targets by a gather."""
_LOOKUPS = re.compile("embedding", re.IGNORECASE)

# The constants of the model.
_SOURCE = "benchmarks/batched_operators.py: several models at once over one after the other, calls apart"
PRODUCTS = Constant(1.06, 1.0, 1.7, f"{_SOURCE}, and the order of gradients apart", machine=EPYC)
CONVOLUTIONS = Constant(1.0, 0.9, 1.15, _SOURCE, machine=XEON)
NORMS = Constant(2.6, 2.0, 3.6, _SOURCE, machine=XEON)
LAYER_NORMS = Constant(4.0, 2.6, 4.5, f"{_SOURCE}: a layer normalization", machine=EPYC)
_CALLS = (
    "benchmarks/batched_operators.py: processor time that vmap adds to a layer on tiny tensors, both passes"
)
PRODUCT_CALL_US = Constant(70.0, 35.0, 110.0, _CALLS, machine=XEON)
CONVOLUTION_CALL_US = Constant(270.0, 130.0, 350.0, _CALLS, machine=XEON)
NORM_CALL_US = Constant(60.0, 30.0, 90.0, _CALLS, machine=XEON)
LOSS_CALL_US = Constant(57.0, 40.0, 160.0, _CALLS, machine=EPYC)
LOOKUP_CALL_US = Constant(25.0, 20.0, 80.0, _CALLS, machine=EPYC)
OTHER_CALL_US = Constant(4.0, 0.0, 15.0, _CALLS, machine=XEON)
STEP_CALL_US = Constant(
    100.0, 50.0, 300.0, "benchmarks/batched_operators.py: the same for a pass, once", machine=XEON
)
OTHERS = Constant(1.0, 0.85, 1.4, _SOURCE, machine=XEON)
_BYTES_PER_US = Constant.at(
    10e3, "an assumption: a core moves as much, which bounds the work of a small operator"
)
_FLOP_PER_US = Constant.at(20e3, "an assumption: a core computes as much, as above")
_TENSOR_US = Constant.at(2.0, "an assumption: µs for each tensor of an operator that takes a list of them")
_KERNEL_US = Constant(
    2.0, 0.0, 8.0,
    "an assumption: µs of a kernel of unknown size that do not grow with its work; more where units are idle",
)  # fmt: skip


def batched_on_cpu(
    scenario: Scenario, subject: Subject, jobs: int, own_data: bool
) -> tuple[Graph, Graph, Graph]:
    """The graph with each operator of the script's thread computing for ``jobs`` models: likely, best and worst.

    Calls and the Python code between them happen once. Work on activations takes as long as in a batch
    ``jobs`` times as large, if the curve knows that time. Work with weights takes as long for each model as
    now, except that threads divide work that was too small for them.
    """
    graph = scenario.graph
    tasks = graph.tasks
    loading = (tasks.kind == KIND[TaskKind.DATA]) | (tasks.phase == PHASE[Phase.DATA])
    computing = (tasks.lane == tasks.lane_code(subject.lane)) & ~loading
    passes = computing & np.isin(tasks.phase, _PASSES)
    weighted = _with_weights(graph)
    products = np.flatnonzero(computing & weighted & (tasks.work == WORK[WorkClass.MATMUL]))
    divided = by_model(subject, graph, products, jobs)
    alone_us, larger = _one_by_one_us(subject, graph, jobs), _in_larger_batch(scenario, subject, jobs)
    found: list[Graph] = []
    for case in ENDS:
        factors = np.full(len(graph), getattr(OTHERS, case))
        factors[products] = divided * getattr(PRODUCTS, case)
        factors[weighted & (tasks.work == WORK[WorkClass.CONVOLUTION])] = getattr(CONVOLUTIONS, case)
        factors = np.where(passes & graph.tasks.named(_NORMS.search), _norm_factors(graph, case), factors)
        durations, gaps = np.where(computing, factors * alone_us, graph.durations), graph.gaps.copy()
        if larger is not None:
            moving = passes & ~weighted
            durations[moving] = (factors * larger.durations)[moving]
            if _returns_blocks(subject, scenario, jobs):
                # The gaps include returning blocks to the system, which grows with the blocks; Python's time
                # does not grow.
                gaps[passes] = np.maximum(gaps, larger.gaps)[passes]
        if own_data:
            durations[loading] *= jobs
            gaps[loading] *= jobs
        durations += turned_us(subject, graph, jobs, case) + provided_us(subject, graph, jobs)
        durations = np.maximum(durations, updated_us(subject, graph, jobs, case))
        found.append(_with_dispatch(subject, graph.with_times(durations, gaps), case))
    likely, least, most = found
    return likely, least, most


def _returns_blocks(subject: Subject, scenario: Scenario, jobs: int) -> bool:
    """True if blocks for ``jobs`` models are too large for the C library to keep."""
    largest = max((abs(one.size_bytes) for one in subject.script.trace.allocations), default=0)
    return jobs * scenario.batch_factor(subject) * largest > LARGE_BYTES


def _norm_factors(graph: Graph, case: str) -> Times:
    """The ratio of a normalization's time in steps to its time as one operator, by task; 1 for other tasks."""
    found = np.where(graph.tasks.named(_NORMS.search), getattr(NORMS, case), 1.0)
    return np.where(graph.tasks.named(_LAYER_NORMS.search), getattr(LAYER_NORMS, case), found)


def _with_weights(graph: Graph) -> Flags:
    """Flags of the tasks that work with tensors of the size of a weight: each model has its own weight."""
    tasks = graph.tasks
    products = (tasks.work == WORK[WorkClass.MATMUL]) & ~graph.tasks.named(_OF_ACTIVATIONS.search)
    return products | (tasks.work == WORK[WorkClass.CONVOLUTION]) | graph.tasks.named(_OF_WEIGHTS.search)


def _one_by_one_us(subject: Subject, graph: Graph, jobs: int) -> Times:
    """The time of each task in µs: its call once, its work for each model, divided among threads if large enough."""
    trace, threads = subject.script.trace, threads_of(subject)
    now_us = graph.durations
    calls_us, gains = np.minimum(CALL_US, 0.5 * now_us), np.ones(len(graph))
    rows: list[int] = graph.tasks.origin.tolist()
    for task, row in enumerate(rows):
        if row < 0:
            continue
        record = trace.records[row]
        if record.shape >= 0:
            shape = trace.shapes[record.shape]
            work_us = _moved(shape) / _BYTES_PER_US.value + shape.flops / _FLOP_PER_US.value
            most_us = max(CALL_US, _TENSOR_US.value * len(shape.inputs))
            calls_us[task] = max(calls_us[task], min(most_us, now_us[task] - work_us))
        if threads > 1 and not is_split(record, trace) and is_split(record, trace, jobs):
            gains[task] = gained(PLAIN_PART.value, threads)
    return calls_us + jobs * gains * (now_us - calls_us)


def _in_larger_batch(scenario: Scenario, subject: Subject, jobs: int) -> Graph | None:
    """The passes in a batch ``jobs`` times as large, by the measured curve; None if unknown."""
    curve, graph = subject.curve, scenario.graph
    base, size = curve.base, scenario.batch_size or curve.base
    if base is None or size is None or curve.reason or not curve.knows(jobs * size):
        return None
    now, then = curve.part_factors(size), curve.part_factors(jobs * size)
    told_apart = {part for part, ms in subject.parts_ms.items() if ms > 0}
    ratios = {part: then[part] / now[part] if now[part] > 0 else 1.0 for part in Part}
    ratios |= {Part.LOADER: 1.0, Part.OPTIMIZER: 1.0}
    factors = np.array([ratios[part if part in told_apart else Part.REST] for part in PARTS])
    before, after = (
        np.ones(len(graph)) if many == base else growth(subject, graph, many / base)
        for many in (size, jobs * size)
    )
    tried = None if before is None or after is None else after / before
    standing = cleared_shares(subject.script, graph)
    return grown(graph, subject.lane, parts_of(graph.tasks), factors, jobs, standing, tried)


def batched_on_gpu(subject: Subject, graph: Graph, jobs: int, own_data: bool) -> tuple[Graph, Graph, Graph]:
    """The graph with each kernel computing for ``jobs`` models, launched as often as now: likely, best and worst."""
    tasks = graph.tasks
    over_bus = tasks.named(lambda name: any(mark in name.lower() for mark in _OVER_THE_BUS))
    loading = (tasks.kind == KIND[TaskKind.DATA]) | (tasks.phase == PHASE[Phase.DATA])
    loading |= (tasks.kind == KIND[TaskKind.COPY]) & over_bus
    kernels = select(graph, kind=TaskKind.KERNEL)
    kernels = kernels[~loading[kernels]]
    copies = np.flatnonzero((tasks.kind == KIND[TaskKind.COPY]) & ~loading)
    found: list[Graph] = []
    for case, factors in zip(ENDS, kernel_factors(subject, graph, kernels, jobs), strict=True):
        durations, gaps = graph.durations.copy(), graph.gaps.copy()
        durations[kernels] *= factors * _norm_factors(graph, case)[kernels]
        durations[copies] *= jobs
        if own_data:
            durations[loading] *= jobs
            gaps[loading] *= jobs
        found.append(_with_dispatch(subject, graph.with_times(durations, gaps), case))
    likely, least, most = found
    return likely, least, most


def kernel_factors(subject: Subject, graph: Graph, kernels: Indices, jobs: int) -> Factors:
    """The ratio of each kernel's time with the work of ``jobs`` models to its present time.

    It is at most ``jobs``, as for kernels one after the other, and at least what memory and arithmetic units
    allow.
    """
    now_us = np.maximum(graph.durations[kernels], 1e-9)
    ends = [
        1 + (jobs - 1) * np.maximum(0.0, now_us - fixed_us) / now_us
        for fixed_us in (_KERNEL_US.value, _KERNEL_US.high, _KERNEL_US.low)
    ]
    known = PredictedKernels.of(subject, graph) or _measured_kernels(subject, graph)
    if known is not None:
        inside = np.isin(known.kernels, kernels)
        places = np.searchsorted(kernels, known.kernels[inside])
        told = known.factors(known.shapes, [batched_shape(one, jobs) for one in known.shapes])
        least_us = np.array([_least_us(one, known.spec) for one in known.shapes])[inside]
        bounds = jobs * least_us / np.maximum(now_us[places], least_us)
        for end, factors in zip(ends, told, strict=True):
            end[places] = np.maximum(factors[inside], bounds)
    likely, least, most = (np.clip(end, 1.0, jobs) for end in ends)
    return Factors(likely, np.minimum(least, likely), np.maximum(most, likely))


def _measured_kernels(subject: Subject, graph: Graph) -> PredictedKernels | None:
    """The kernels of a measured profile with known sizes, and the predictor of their GPU; None without any."""
    spec = gpu(subject)
    if spec is None or subject.profile is None:
        return None
    known = PredictedKernels.on(subject, graph, spec)
    return known if known.shapes else None


def _least_us(shape: OperatorShape, spec: GpuSpec) -> float:
    """The least time of this work in µs: its bytes at the bandwidth, or its arithmetic at the highest peak."""
    peak = max(spec.tflops_fp32, spec.tflops_bf16 or 0.0, spec.tflops_fp16 or 0.0)
    return max(1e-9, _moved(shape) / (spec.bandwidth_gb_s * 1e3), shape.flops / (peak * 1e6))


def _moved(shape: OperatorShape) -> float:
    """The least number of bytes that the operator reads and writes; for a recorded call, those of its arguments."""
    width = 2.0 if any("16" in one for one in shape.dtypes) else 4.0
    return shape.bytes_moved or width * sum(map(prod, (*shape.inputs, *shape.outputs)))


def batched_shape(shape: OperatorShape, jobs: int) -> OperatorShape:
    """The operator for ``jobs`` models at once: a batch of products, a grouped convolution, or larger tensors."""
    more = replace(shape, flops=jobs * shape.flops, bytes_moved=jobs * shape.bytes_moved)
    kind = work_class(shape.operator)
    matrices = [one for one in shape.inputs if len(one) >= 2]
    if kind is WorkClass.MATMUL and shape.flops and len(matrices) > 1 and len(matrices[-1]) == 2:
        rows, inner = max(1, prod(matrices[0][:-1])), max(1, matrices[0][-1])
        columns = max(1, round(shape.flops / (2 * rows * inner)))
        inputs = ((jobs, rows, inner), (jobs, inner, columns))
        return replace(
            more,
            operator="aten::bmm",
            inputs=inputs,
            dtypes=shape.dtypes[:1] * 2,
            # A recorded call does not show its result.
            outputs=((jobs, rows, columns),) if shape.outputs else (),
            output_dtypes=shape.output_dtypes[:1],
        )
    name = shape.operator.lower()
    if kind is WorkClass.CONVOLUTION or "batch_norm" in name:
        # Each model has a group of channels, which are the first dimension of a weight and the second of an
        # image.
        weight = shape.inputs[2:3] if "backward" in name else shape.inputs[1:2]
        inputs, outputs = (
            tuple(_larger(one, jobs, 0 if one in weight else 1) for one in sizes)
            for sizes in (shape.inputs, shape.outputs)
        )
        return replace(more, inputs=inputs, outputs=outputs)
    inputs, outputs = (
        tuple(_larger(size, jobs, 0) for size in sizes) for sizes in (shape.inputs, shape.outputs)
    )
    return replace(more, inputs=inputs, outputs=outputs)


def _larger(size: tuple[int, ...], jobs: int, dimension: int) -> tuple[int, ...]:
    """The size with one dimension ``jobs`` times as large; a vector has only its first."""
    place = min(dimension, len(size) - 1)
    return tuple(jobs * one if at == place else one for at, one in enumerate(size))


def _with_dispatch(subject: Subject, graph: Graph, case: str) -> Graph:
    """The graph with the host time that batching adds: after each operator of the forward pass, and once before it."""
    tasks = graph.tasks
    forward = (tasks.lane == tasks.lane_code(subject.lane)) & (tasks.phase == PHASE[Phase.FORWARD])
    called = forward & graph.tasks.named(_OPERATOR.search) & (tasks.kind == KIND[TaskKind.CPU])
    if not called.any():
        called = forward & (tasks.kind == KIND[TaskKind.LAUNCH])
    weighted = _with_weights(graph)
    added_us = np.full(len(graph), getattr(OTHER_CALL_US, case))
    added_us[weighted & (tasks.work == WORK[WorkClass.MATMUL])] = getattr(PRODUCT_CALL_US, case)
    added_us[weighted & (tasks.work == WORK[WorkClass.CONVOLUTION])] = getattr(CONVOLUTION_CALL_US, case)
    added_us[graph.tasks.named(_NORMS.search)] = getattr(NORM_CALL_US, case)
    added_us[graph.tasks.named(_LOSSES.search)] = getattr(LOSS_CALL_US, case)
    added_us[graph.tasks.named(_LOOKUPS.search)] = getattr(LOOKUP_CALL_US, case)
    added_us[~called] = 0.0
    places = np.flatnonzero(called)
    _, first = np.unique(tasks.iteration[places], return_index=True)
    added_us[places[first]] += getattr(STEP_CALL_US, case)
    return graph.with_times(gaps=graph.gaps + added_us)
