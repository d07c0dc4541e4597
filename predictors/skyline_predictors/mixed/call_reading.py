"""Reads the sizes that the formulas need from operator calls: one row of numbers for each call."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from skyline.trace.record import OperatorShape
from skyline_predictors.memory_levels import Floats
from skyline_predictors.mixed.call_kind import (
    CONVOLUTIONS,
    CallKind,
    call_kind,
    convolution_tensors,
    is_backward,
)
from skyline_predictors.number_format import ELEMENT_BYTES
from skyline_predictors.shape_reading import deciding_format, least_bytes, matrix_shape

COSTLY = (
    "gelu", "silu", "sigmoid", "tanh", "exp", "erf", "hardswish", "mish", "softplus", "elu", "pow", "log", "sin",
    "cos", "norm", "rand", "dropout", "bernoulli",
)  # fmt: skip
"""Pointwise operators that take many instructions for each element."""
COLUMNS: dict[CallKind, tuple[str, ...]] = {
    CallKind.PRODUCT: ("batch", "rows", "columns", "inner", "element", "moved", "aligned"),
    CallKind.CONVOLUTION: (
        "pixels", "channels", "filters", "taps", "image_bytes", "output_bytes", "weight_bytes", "element", "last",
        "backward", "to_images", "bias", "stride", "width",
    ),
    CallKind.ATTENTION: ("heads", "queries", "keys", "depth", "moved", "backward", "fused", "masked"),
}  # fmt: skip
COLUMNS[CallKind.GROUPED] = COLUMNS[CallKind.DEPTHWISE] = (*COLUMNS[CallKind.CONVOLUTION], "groups")
_STREAM = (
    "moved", "read", "elements", "element", "last", "mixed", "backward", "training", "costly", "row",
    "taps", "channels",
)  # fmt: skip
"""Columns of all other kinds."""


def columns(kind: CallKind) -> tuple[str, ...]:
    """Names of the numbers in a row of this kind."""
    return COLUMNS.get(kind, _STREAM)


@lru_cache(maxsize=1 << 14)
def read_call(shape: OperatorShape) -> tuple[CallKind, tuple[float, ...]]:
    """The kind of a call and its row."""
    kind = call_kind(shape)
    if kind is CallKind.PRODUCT:
        return kind, _product(shape)
    if kind in CONVOLUTIONS:
        return kind, _convolution(shape, grouped=kind is not CallKind.CONVOLUTION)
    if kind is CallKind.ATTENTION:
        return kind, _attention(shape)
    return kind, _stream(shape)


def as_columns(kind: CallKind, rows: Sequence[Sequence[float]]) -> dict[str, Floats]:
    """Rows of one kind as named arrays."""
    table = np.array(rows, dtype=float).reshape(len(rows), -1)
    return {name: table[:, place] for place, name in enumerate(columns(kind))}


def _element(shape: OperatorShape) -> float:
    return float(ELEMENT_BYTES.get(deciding_format(shape), 4))


def _moved(shape: OperatorShape) -> float:
    return float(shape.bytes_moved or least_bytes(shape))


def _product(shape: OperatorShape) -> tuple[float, ...]:
    made = matrix_shape(shape)
    element = _element(shape)
    step = max(1, round(16 / element))
    aligned = float(made.columns % step == 0 and (made.inner % step == 0 or made.rows % step == 0))
    return (
        float(made.batch),
        float(made.rows),
        float(made.columns),
        float(made.inner),
        element,
        _moved(shape),
        aligned,
    )


def _convolution(shape: OperatorShape, *, grouped: bool) -> tuple[float, ...]:
    output, image, weight = convolution_tensors(shape)
    element = _element(shape)
    backward = is_backward(shape)
    channels, filters = float(max(1, image[1])), float(max(1, output[1]))
    groups = max(1.0, channels // max(1, weight[1])) if grouped else 1.0
    taps = float(prod(weight[2:]))
    pixels = float(output[0] * prod(output[2:]))
    forward = 2 * pixels * filters * channels / groups * taps
    stride = max(1.0, (prod(image[2:]) / max(1, prod(output[2:]))) ** 0.5)
    row = (
        pixels, channels / groups, filters / groups, taps, prod(image) * element, prod(output) * element,
        prod(weight) * element, element, float(shape.layout == "channels last" or _flat(image, output)),
        float(backward), float(backward and shape.flops > 1.5 * forward), float(_has_bias(shape)), stride,
        float(image[-1]),
    )  # fmt: skip
    return (*row, groups) if grouped else row


def _flat(image: tuple[int, ...], output: tuple[int, ...]) -> bool:
    """True if the image and the output have one pixel each: both layouts are then the same."""
    return prod(image[2:]) == 1 and prod(output[2:]) == 1


def _has_bias(shape: OperatorShape) -> bool:
    if is_backward(shape):
        return len(shape.outputs) >= 3 or any(len(size) == 1 for size in shape.outputs)
    return any(len(size) == 1 for size in shape.inputs)


def _attention(shape: OperatorShape) -> tuple[float, ...]:
    backward = is_backward(shape)
    tensors = [size for size in shape.inputs if len(size) >= 3]
    tensors = tensors[1:] if backward and len(tensors) > 3 else tensors
    query = tensors[0] if tensors else (1, 1, 1)
    key = tensors[1] if len(tensors) > 1 else query
    masked = len(tensors) > 3 and not backward
    return (
        float(prod(query[:-2])), float(query[-2]), float(key[-2]), float(query[-1]), _moved(shape), float(backward),
        float("efficient" not in shape.operator), float(masked),
    )  # fmt: skip


def _stream(shape: OperatorShape) -> tuple[float, ...]:
    name = shape.operator.lower()
    biggest = max((*shape.inputs, *shape.outputs), key=prod, default=(1,))
    first = max((shape.inputs or shape.outputs or ((1,),)), key=prod)
    read = sum(
        prod(size) * ELEMENT_BYTES.get(dtype, 4)
        for size, dtype in zip(shape.inputs, shape.dtypes, strict=False)
    )
    # Only normalization that computes statistics has them as outputs. Recorded calls have no outputs at all.
    statistics = len(shape.outputs) > 1 and prod(shape.outputs[1]) > 0
    training = "no_training" not in name and (statistics or not shape.outputs)
    out = prod(shape.outputs[0]) if shape.outputs else 1
    taps = max(1.0, prod(first) / max(1, out)) if "pool" in name else 1.0
    moved = _moved(shape)
    if "group_norm" in name and not is_backward(shape):
        # The statistics of a group have to be complete before its first number is normalized: this takes one
        # more pass.
        moved += read
    costly = any(mark in name for mark in COSTLY) or name == "inductor::reduction"
    return (
        moved, float(read), float(max(1, prod(biggest))), _element(shape),
        float(shape.layout == "channels last"), float(shape.layout == "mixed"), float(is_backward(shape)),
        float(training), float(costly), float(first[-1] if first else 1), taps,
        float(max(1, first[1]) if len(first) > 2 else 1),
    )  # fmt: skip
