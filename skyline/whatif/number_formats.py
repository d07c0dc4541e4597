"""The number format in which a GPU multiplies, and the speed-up in another format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.task import WORK, WorkClass
from skyline.interval import ENDS, Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.registry import predictor_for
from skyline.trace.record import OperatorShape
from skyline.whatif.constant import Constant
from skyline.whatif.recording import compute_capability
from skyline.whatif.subject import Subject, shapes

FLOAT32, TF32, BFLOAT16, FLOAT16 = "float32", "tfloat32", "bfloat16", "float16"
NARROW = (BFLOAT16, FLOAT16)
FIRST_WITH_TF32 = FIRST_WITH_BFLOAT16 = (8, 0)
FIRST_WITH_FLOAT16 = (7, 0)
"""The first compute capability with matrix units for the format; earlier GPUs save memory at most."""
UNKNOWN_GPU = Interval(0.5, 0.3, 0.85)
"""Ratio of a product's time in a format for matrix units to its time in plain float32, on a GPU of unknown peaks."""
_USUAL_BYTES_PER_US = Constant.at(500e3, "an assumption for a GPU of unknown bandwidth: 500 GB/s")
_TYPICAL, _BEST, _WORST = 0.5, 0.85, 0.15
"""Exponents of the ratio of peaks, for products of unknown size. Daydream (Zhu and others, 2020) assumes a
third of the time on a GPU whose peaks differ by a factor of 8: an exponent of 0.53."""
_OWN_BEST, _OWN_WORST = 1.4, 0.5
"""Exponents of the ratio that the predictor gives for a product's own size."""
_KERNELS = (
    (BFLOAT16, re.compile(r"bf16|bfloat16|nvjet_(sm\d+_)?t", re.IGNORECASE)),
    (
        FLOAT16,
        re.compile(
            r"(?<![a-z])(fp16|f16|h?884|half|hgemm)(?![0-9])|h1688|h16816|__half|nvjet_(sm\d+_)?h",
            re.IGNORECASE,
        ),
    ),
    (BFLOAT16, re.compile(r"s16816(gemm|fprop|dgrad|wgrad)")),
    (TF32, re.compile(r"tf32|s1688(gemm|fprop|dgrad|wgrad)|tensor16x8x8|nvjet_(sm\d+_)?s", re.IGNORECASE)),
)
"""Patterns in the names of kernels; kernels without one compute in float32. ``s1688`` is the instruction that
multiplies float32 numbers in TF32, ``s16816`` its counterpart of 16 bits (CUTLASS, ``include/cutlass/arch``).
cuBLAS's products from Hopper on, ``nvjet_…``, name the format of the first matrix: t for bfloat16, h for
float16, s for float32."""

_WIDE_ATTENTION, _NARROW_ATTENTION = "_efficient_attention", "_flash_attention"
"""PyTorch's fused attention on CUDA: flash attention takes only 16-bit inputs (``sdp_utils.cpp``)."""

_Product = tuple[OperatorShape | None, str]
"""A product's call, None if its size is unknown, and the format that it computes in."""


@dataclass(frozen=True, slots=True)
class Factors:
    """The ratio of the time after a change to the time before it, for each task: likely, at best and at worst."""

    likely: npt.NDArray[np.float64]
    least: npt.NDArray[np.float64]
    most: npt.NDArray[np.float64]

    def __iter__(self) -> Iterator[npt.NDArray[np.float64]]:
        return iter((self.likely, self.least, self.most))

    def applied(self, graph: Graph, chosen: Indices) -> tuple[Graph, Graph, Graph]:
        """The graph with the changed tasks: likely, at best and at worst."""
        likely, least, most = (scale(graph, chosen, factors) for factors in self)
        return likely, least, most


def capability(subject: Subject) -> tuple[int, int]:
    """The compute capability of the NVIDIA GPU in use; (0, 0) if unknown."""
    if subject.recording is not None:
        return compute_capability(subject.recording)
    settings = None if subject.profile is None else subject.profile.settings
    told = settings.compute_capability if settings is not None else None
    spec = gpu(subject)
    return told or (spec.compute_capability if spec is not None and spec.vendor == "NVIDIA" else (0, 0))


def gpu(subject: Subject) -> GpuSpec | None:
    """The specification of the GPU in use; None if the GPU or its name is not known."""
    if not subject.on_gpu:
        return None
    return _spec_of(subject.device_name) if subject.device_name else None


def gpu_bytes_per_us(subject: Subject) -> float:
    """The memory bandwidth of the GPU in use, by its data sheet, in bytes per µs."""
    spec = gpu(subject)
    return _USUAL_BYTES_PER_US.value if spec is None else spec.bandwidth_gb_s * 1e3


@cache
def _spec_of(name: str) -> GpuSpec | None:
    try:
        return gpu_named(name)
    except UsageError:
        return None


@lru_cache(maxsize=1 << 12)
def kernel_format(name: str) -> str:
    """The number format of a kernel's products, by its name."""
    return next((one for one, pattern in _KERNELS if pattern.search(name)), FLOAT32)


def formats(subject: Subject, graph: Graph, chosen: Indices) -> list[str]:
    """The format in which each of the products computes, as far as shapes, settings and names show it."""
    tasks = graph.tasks
    is_convolution = (tasks.work[chosen] == WORK[WorkClass.CONVOLUTION]).tolist()
    as_tf32 = {each: allows_tf32(subject, convolution=each) for each in (True, False)}
    found: list[str] = []
    for index, shape, convolution in zip(
        chosen.tolist(), shapes(subject, graph, chosen), is_convolution, strict=True
    ):
        if shape is None:
            found.append(kernel_format(tasks.names[int(tasks.name[index])]))
            continue
        own = next((name for name in shape.dtypes if "float" in name), FLOAT32)
        found.append(TF32 if own == FLOAT32 and as_tf32[convolution] else own)
    return found


def allows_tf32(subject: Subject, *, convolution: bool) -> bool:
    """True if float32 products of a profile may be computed in TF32; by default only convolutions may."""
    if not subject.on_gpu or capability(subject) < FIRST_WITH_TF32 or subject.profile is None:
        return False
    settings = subject.profile.settings
    if convolution:
        return settings is None or settings.cudnn_tf32 is not False
    return settings is not None and settings.matmul_precision in ("high", "medium")


def factors(subject: Subject, graph: Graph, chosen: Indices, target: str) -> Factors:
    """The ratio of the products' time in another format to their time now.

    With shapes and a known GPU, the predictor of that GPU gives the ratio of a product's times in both
    formats. Without shapes, the peaks alone give a range.
    """
    spec = gpu(subject)
    now = formats(subject, graph, chosen)
    sizes = shapes(subject, graph, chosen)
    known = _known_factors(tuple(dict.fromkeys(zip(sizes, now, strict=True))), target, spec)
    rows = [known[pair] for pair in zip(sizes, now, strict=True)]
    least = [
        _least_factor(*row, target, spec) for row in zip(sizes, now, graph.durations[chosen], strict=True)
    ]
    columns = ([getattr(row, end) for row in rows] for end in ENDS)
    return Factors(*(np.maximum(np.array(column, np.float64), least) for column in columns))


def _least_factor(
    shape: OperatorShape | None, present: str, now_us: float, target: str, spec: GpuSpec | None
) -> float:
    """The least share of a product's time that remains: memory and units are no faster than the data sheet says."""
    if shape is None or spec is None or shape.flops <= 0:
        return 0.0
    before_us, after_us = (
        max(
            in_format(shape, name).bytes_moved / (spec.bandwidth_gb_s * 1e3),
            shape.flops / (_peak(spec, name) * 1e6),
        )
        for name in (present, target)
    )
    return min(1.0, after_us / max(now_us, before_us))


def _known_factors(
    products: Sequence[_Product], target: str, spec: GpuSpec | None
) -> dict[_Product, Interval]:
    found = {(shape, present): _by_peaks(present, target, spec) for shape, present in products}
    sized = [
        (shape, present)
        for shape, present in products
        if shape is not None and shape.flops > 0 and present != target and present not in NARROW
    ]
    if spec is None or not sized:
        return found
    predictor = predictor_for(spec)
    before, after = (
        [one.time_us.value for one in predictor.predict(tuple(asked), spec)]
        for asked in (
            [in_format(shape, present) for shape, present in sized],
            [in_format(shape, target) for shape, _ in sized],
        )
    )
    for (shape, present), before_us, after_us in zip(sized, before, after, strict=True):
        ratio = min(1.0, _peak(spec, present) / _peak(spec, target))
        value = min(1.0, after_us / before_us) if before_us > 0 else 1.0
        found[shape, present] = Interval(
            value, min(value, max(ratio, value**_OWN_BEST)), max(value, value**_OWN_WORST)
        )
    return found


def _by_peaks(present: str, target: str, spec: GpuSpec | None) -> Interval:
    """The factor for a product of unknown size."""
    if present == target or present in NARROW:
        return Interval.exact(1.0)
    if spec is None:
        return UNKNOWN_GPU if present == FLOAT32 else Interval(0.75, 0.5, 1.0)
    ratio = min(1.0, _peak(spec, present) / _peak(spec, target))
    return Interval(ratio**_TYPICAL, ratio**_BEST, ratio**_WORST)


def _peak(spec: GpuSpec, number_format: str) -> float:
    peaks = {TF32: spec.tflops_tf32, BFLOAT16: spec.tflops_bf16, FLOAT16: spec.tflops_fp16}
    return peaks.get(number_format) or spec.tflops_fp32


def in_format(shape: OperatorShape, number_format: str) -> OperatorShape:
    """The operator with float32 tensors in another format, and the attention kernel that accepts that format."""

    def changed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(number_format if name == FLOAT32 else name for name in names)

    halved = number_format in NARROW and FLOAT32 in shape.dtypes
    return replace(
        shape,
        operator=shape.operator.replace(_WIDE_ATTENTION, _NARROW_ATTENTION) if halved else shape.operator,
        dtypes=changed(shape.dtypes),
        output_dtypes=changed(shape.output_dtypes),
        bytes_moved=shape.bytes_moved // 2 if halved else shape.bytes_moved,
    )
