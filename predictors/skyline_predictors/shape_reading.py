"""Sizes of products, convolutions and rows, read from operators' shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from skyline.lazy_dataclass import dataclass
from skyline.trace.product_output import outputs_of
from skyline.trace.record import OperatorShape
from skyline_predictors.matrix_time import MatrixShape
from skyline_predictors.memory_levels import Floats
from skyline_predictors.number_format import ELEMENT_BYTES, MEASURED


@dataclass(frozen=True, slots=True)
class Convolutions:
    """Sizes of convolutions, one per array element: ``images`` with ``channels`` each, in ``groups``.

    ``size`` and ``out_size`` are the pixels of an image, ``taps`` the pixels of a filter.
    """

    images: Floats
    channels: Floats
    filters: Floats
    groups: Floats
    taps: Floats
    size: Floats
    out_size: Floats
    element_bytes: Floats


def deciding_format(shape: OperatorShape) -> str:
    """The number format that decides the speed: the format of the first floating-point tensor."""
    for name in (*shape.dtypes, *shape.output_dtypes):
        if "float" in name or "complex" in name:
            return name
    return MEASURED


def bytes_moved(shapes: Sequence[OperatorShape]) -> Floats:
    """Bytes that each operator reads and writes at least once."""
    return np.array([float(shape.bytes_moved or least_bytes(shape)) for shape in shapes])


def row_length(shape: OperatorShape) -> int:
    """Row length of an operator that works on rows: the last dimension."""
    sizes = shape.inputs or shape.outputs
    return sizes[0][-1] if sizes and sizes[0] else 1


def matrix_shape(shape: OperatorShape) -> MatrixShape:
    """The product behind an operator, from its output and its number of floating-point operations."""
    outputs = outputs_of(shape)
    output = outputs[0] if outputs else ()
    if len(output) < 2 or not prod(output):
        elements = max(1, prod(output))
        return MatrixShape(1, elements, 1, max(1, shape.flops // (2 * elements)))
    inner = max(1, round(shape.flops / (2 * prod(output))))
    batch = prod(output[:-2])
    matrices = [dimensions for dimensions in shape.inputs if len(dimensions) >= 2]
    if matrices and len(matrices[-1]) == 2:
        # The whole batch has one matrix: this is a single, taller product.
        return MatrixShape(1, batch * output[-2], output[-1], inner)
    return MatrixShape(batch, output[-2], output[-1], inner)


def convolution_shape(shape: OperatorShape) -> MatrixShape:
    """The forward convolution as a matrix product: output pixels by output channels, over patches."""
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


def is_backward(shape: OperatorShape) -> bool:
    """True for operators that compute gradients."""
    return "backward" in shape.operator.lower()


def read_convolutions(shapes: Sequence[OperatorShape], number_format: str) -> Convolutions:
    """The forward convolutions behind operators, including operators that compute their gradients."""
    rows = np.array([_convolution(shape) for shape in shapes], dtype=float)
    element = np.full(len(rows), float(ELEMENT_BYTES.get(number_format, 4)))
    columns: list[Floats] = [rows[:, column] for column in range(rows.shape[1])]
    images, channels, filters, groups, taps, size, out_size = columns
    return Convolutions(images, channels, filters, groups, taps, size, out_size, element)


def _convolution(shape: OperatorShape) -> tuple[float, ...]:
    tensors = [size for size in shape.inputs if len(size) >= 3]
    if is_backward(shape) and len(tensors) >= 3:
        output, image, weight = tensors[:3]
    elif len(tensors) >= 2 and shape.outputs and prod(shape.outputs[0]):
        output, (image, weight) = shape.outputs[0], tensors[:2]
    else:
        # Only the number of floating-point operations is known.
        side = max(1.0, (shape.flops / 2) ** (1 / 3))
        return (1.0, side, side, 1.0, 1.0, side, side)
    taps, size, out_size = prod(weight[2:]), prod(image[2:]), prod(output[2:])
    channels, filters = max(1, image[1]), max(1, output[1])
    # The weights of a transposed convolution have the channels of the image first.
    groups = max(1, channels // max(1, weight[1])) if weight[0] == filters else 1
    sizes = (max(1, image[0]), channels, filters, groups, taps, size, out_size)
    return tuple(map(float, sizes))


def least_bytes(shape: OperatorShape) -> int:
    """Bytes of all inputs and outputs, each once."""
    outputs = outputs_of(shape)
    formats = shape.output_dtypes or shape.dtypes[:1] * len(outputs)
    return sum(
        prod(size) * ELEMENT_BYTES.get(name, 4)
        for size, name in (
            *zip(shape.inputs, shape.dtypes, strict=False),
            *zip(outputs, formats, strict=False),
        )
    )
