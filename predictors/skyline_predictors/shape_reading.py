"""What the models of products, convolutions and rows need to know, read from operators' shapes, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from skyline.trace.shape import OperatorShape
from skyline_predictors.convolved import Convolutions
from skyline_predictors.matrix_time import MatrixShape
from skyline_predictors.memory_levels import Floats
from skyline_predictors.number_format import ELEMENT_BYTES, MEASURED
from skyline_predictors.tiled_product import Products

_Pixels = tuple[int, ...]


def deciding_format(shape: OperatorShape) -> str:
    """The number format that decides the speed: that of the first tensor of floating-point numbers."""
    for name in (*shape.dtypes, *shape.output_dtypes):
        if "float" in name or "complex" in name:
            return name
    return MEASURED


def bytes_moved(shapes: Sequence[OperatorShape]) -> Floats:
    """What each must read and write at least once."""
    return np.array([float(shape.bytes_moved or _bytes(shape)) for shape in shapes])


def row_length(shape: OperatorShape) -> int:
    """How many numbers an operator goes over at a time that works on rows: the last dimension."""
    sizes = shape.inputs or shape.outputs
    return sizes[0][-1] if sizes and sizes[0] else 1


def matrix_shape(shape: OperatorShape) -> MatrixShape:
    """The product behind an operator, told from its output and its arithmetic."""
    output = shape.outputs[0] if shape.outputs else ()
    if len(output) < 2 or not prod(output):
        elements = max(1, prod(output))
        return MatrixShape(1, elements, 1, max(1, shape.flops // (2 * elements)))
    inner = max(1, round(shape.flops / (2 * prod(output))))
    batch = prod(output[:-2])
    matrices = [dimensions for dimensions in shape.inputs if len(dimensions) >= 2]
    if matrices and len(matrices[-1]) == 2:
        # One matrix for the whole batch: a single, taller product.
        return MatrixShape(1, batch * output[-2], output[-1], inner)
    return MatrixShape(batch, output[-2], output[-1], inner)


def convolution_shape(shape: OperatorShape) -> MatrixShape:
    """The forward convolution as the product that it is: output pixels by output channels over patches."""
    tensors = [dimensions for dimensions in shape.inputs if len(dimensions) >= 3]
    backward = "backward" in shape.operator.lower() and len(tensors) >= 3
    if backward:
        output, image, weight = tensors[:3]
    else:
        if len(tensors) < 2 or not shape.outputs or not prod(shape.outputs[0]):
            return MatrixShape(1, max(1, shape.flops // 2), 1, 1)
        output, (image, weight) = shape.outputs[0], tensors[:2]
    groups = max(1, image[1] // max(1, weight[1]))
    pixels = output[0] * prod(output[2:])
    return MatrixShape(groups, pixels, max(1, output[1] // groups), prod(weight[1:]))


def products(shapes: Sequence[OperatorShape], number_format: str) -> Products:
    """The products behind operators with arithmetic."""
    read = [matrix_shape(shape) for shape in shapes]
    sizes = np.array([(one.batch, one.rows, one.columns, one.inner) for one in read], dtype=float)
    element = np.full(len(read), float(ELEMENT_BYTES.get(number_format, 4)))
    return Products.of(sizes[:, 0], sizes[:, 1], sizes[:, 2], sizes[:, 3], element)


def is_backward(shape: OperatorShape) -> bool:
    """Whether an operator works out gradients."""
    return "backward" in shape.operator.lower()


def read_convolutions(shapes: Sequence[OperatorShape], number_format: str) -> Convolutions:
    """The forward convolutions of operators, also of those that work out their gradients."""
    rows = np.array([_convolution(shape) for shape in shapes], dtype=float)
    element = np.full(len(rows), float(ELEMENT_BYTES.get(number_format, 4)))
    columns: list[Floats] = [rows[:, column] for column in range(rows.shape[1])]
    images, channels, filters, groups, taps, size, out_size, shared, small = columns
    return Convolutions(images, channels, filters, groups, taps, size, out_size, shared, small, element)


def weight_gradients(forward: Convolutions) -> Products:
    """Filters by patches over all pixels: the product that works out the gradient of the weights."""
    pixels = forward.images * forward.out_size
    filters, channels = forward.filters / forward.groups, forward.channels / forward.groups
    made = Products.of(forward.groups, channels * forward.taps, filters, pixels, forward.element_bytes)
    images = forward.images * forward.size * channels * forward.element_bytes
    return replace(made, left_bytes=images, left_reuse=np.maximum(1.0, forward.shared))


def row_sizes(shapes: Sequence[OperatorShape], number_format: str) -> tuple[Floats, Floats]:
    """How many rows there are, and the bytes of one."""
    element = ELEMENT_BYTES.get(number_format, 4)
    sizes = [max(shape.inputs or shape.outputs or ((1,),), key=prod) for shape in shapes]
    length = np.array([float(size[-1] if size else 1) for size in sizes])
    elements = np.array([float(max(1, prod(size))) for size in sizes])
    return elements / np.maximum(1.0, length), np.maximum(1.0, length) * element


def _convolution(shape: OperatorShape) -> tuple[float, ...]:
    tensors = [size for size in shape.inputs if len(size) >= 3]
    if is_backward(shape) and len(tensors) >= 3:
        output, image, weight = tensors[:3]
    elif len(tensors) >= 2 and shape.outputs and prod(shape.outputs[0]):
        output, (image, weight) = shape.outputs[0], tensors[:2]
    else:
        # Nothing is known but the arithmetic.
        side = max(1.0, (shape.flops / 2) ** (1 / 3))
        return (1.0, side, side, 1.0, 1.0, side, side, 1.0, 0.0)
    taps, size, out_size = prod(weight[2:]), prod(image[2:]), prod(output[2:])
    channels, filters = max(1, image[1]), max(1, output[1])
    # Of a transposed convolution the weights name the channels first.
    groups = max(1, channels // max(1, weight[1])) if weight[0] == filters else 1
    shared = max(1.0, min(float(taps), taps * out_size / max(1, size)))
    small = float(weight[2:] == (3, 3) and _at_stride_one(image[2:], output[2:]))
    return (
        float(max(1, image[0])), float(channels), float(filters), float(groups), float(taps), float(size),
        float(out_size), shared, small,
    )  # fmt: skip


def _at_stride_one(image: _Pixels, output: _Pixels) -> bool:
    return all(abs(inside - outside) <= 2 for inside, outside in zip(image, output, strict=False))


def _bytes(shape: OperatorShape) -> int:
    return sum(
        prod(size) * ELEMENT_BYTES.get(name, 4)
        for size, name in (
            *zip(shape.inputs, shape.dtypes, strict=False),
            *zip(shape.outputs, shape.output_dtypes, strict=False),
        )
    )
