"""The arithmetic of one iteration: its amount, its time at the device's peak, and the fit of its sizes."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.analysis.gpu_costs import busy_share
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.predicted_times import in_allowed_format
from skyline.predict.tile_shares import product_uses, tile_shares
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Record, RecordKind

_LOAD_BYTES = 16
"""Kernels load operands in pieces of 16 bytes. NVIDIA, Matrix Multiplication Background User's Guide."""
_ELEMENT_BYTES = {"float64": 8, "float32": 4, "tfloat32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True, slots=True)
class IterationWork:
    """The counted arithmetic of an iteration: products, convolutions and attention, forward and backward.

    ``ideal_ms`` is its time at the device's peak in its number formats, None without a known peak.
    ``tile_share`` is the share of the computed tiles that belongs to results, ``wave_share`` the share of the
    multiprocessors' time in which they have a tile; both are None if no predictor knows them.
    ``aligned_share`` is the share of the arithmetic whose operands have rows of a multiple of 16 bytes.
    ``busy_share`` is the share of the iteration in which a kernel runs, None without a GPU. ``operators``
    counts kernels on a GPU, else operators.
    """

    flops: int
    ideal_ms: float | None
    operators: int
    parameters: int
    aligned_share: float | None = None
    tile_share: float | None = None
    wave_share: float | None = None
    busy_share: float | None = None
    sizes: frozenset[int] = frozenset()
    """The dimensions of the operands."""


def work_of(profile: Profile, device: GpuSpec | None) -> IterationWork:
    """The work of the first recorded iteration; ``device`` ran it, or is the predicted one, if known."""
    trace = profile.trace
    first = min((mark.index for mark in trace.iterations), default=0)
    records = [one for one in trace.records if one.iteration == first]
    counted = [one for one in records if one.flops > 0]
    shapes = [_shape(one, profile, device) for one in counted]
    known = [(one.flops, shape) for one, shape in zip(counted, shapes, strict=True) if shape is not None]
    total = sum(flops for flops, _ in known)
    aligned = sum(flops for flops, shape in known if _is_aligned(shape))
    tile_share, wave_share = _tiles(known, device)
    kernels = sum(one.kind is RecordKind.KERNEL for one in records)
    return IterationWork(
        flops=sum(one.flops for one in counted),
        ideal_ms=_ideal_ms(counted, shapes, device),
        operators=kernels or sum(one.kind is RecordKind.OPERATOR for one in records),
        parameters=sum(one.parameter_count for one in profile.modules),
        aligned_share=aligned / total if total else None,
        tile_share=tile_share,
        wave_share=wave_share,
        busy_share=busy_share(trace) if kernels else None,
        sizes=frozenset(
            size for _, shape in known for dims in (*shape.inputs, *shape.outputs) for size in dims
        ),
    )


def _shape(record: Record, profile: Profile, device: GpuSpec | None) -> OperatorShape | None:
    if not 0 <= record.shape < len(profile.trace.shapes):
        return None
    shape = profile.trace.shapes[record.shape]
    return shape if device is None else in_allowed_format(shape, profile, device)


def _ideal_ms(
    counted: Sequence[Record], shapes: Sequence[OperatorShape | None], device: GpuSpec | None
) -> float | None:
    if device is None or not counted or not device.tflops_fp32:
        return None
    formats = [_number_format(shape, device) if shape is not None else "float32" for shape in shapes]
    seconds = sum(
        one.flops / (device.tflops_in(name) * 1e12) for one, name in zip(counted, formats, strict=True)
    )
    return seconds * 1e3


def _number_format(shape: OperatorShape, device: GpuSpec) -> str:
    """The format of the first floating-point operand; cuDNN's convolutions use TF32 by default."""
    name = next((one for one in (*shape.dtypes, *shape.output_dtypes) if "float" in one), "float32")
    by_default = (
        name == "float32" and _is_convolution(shape) and device.vendor == "NVIDIA" and device.tflops_tf32
    )
    return "tfloat32" if by_default else name


def _is_aligned(shape: OperatorShape) -> bool:
    operands = zip((*shape.inputs, *shape.outputs), (*shape.dtypes, *shape.output_dtypes), strict=False)
    for dims, number_format in operands:
        # In images and filters, the channels are the rows of the product.
        row = dims[1] if _is_convolution(shape) and len(dims) > 2 else dims[-1] if len(dims) > 1 else 0
        if row * _ELEMENT_BYTES.get(number_format, _LOAD_BYTES) % _LOAD_BYTES:
            return False
    return True


def _is_convolution(shape: OperatorShape) -> bool:
    return "conv" in shape.operator


def _tiles(
    known: Sequence[tuple[int, OperatorShape]], device: GpuSpec | None
) -> tuple[float | None, float | None]:
    """The shares of tiles and of waves over all products, weighted by their arithmetic."""
    shares = tile_shares(product_uses(known, device)) if device is not None else None
    return (None, None) if shares is None else (shares.filled, shares.busy)
