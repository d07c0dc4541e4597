"""The families of learned operators, each with its own physics: membership and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from math import prod

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.trace.record import OperatorShape
from skyline_predictors.learned import convolution, product, stream
from skyline_predictors.learned.convolution import ConvolutionConstants
from skyline_predictors.learned.machine import LearnedGpu
from skyline_predictors.learned.product import BatchedProducts, ProductConstants
from skyline_predictors.learned.stream import RowKernel, StreamConstants, Streams
from skyline_predictors.number_format import MEASURED
from skyline_predictors.operator_class import OperatorClass, operator_class
from skyline_predictors.shape_reading import Convolutions, matrix_shape, read_convolutions

Floats = NDArray[np.float64]
Sizes = BatchedProducts | Convolutions | Streams
_SERIES = ("pow", "tanh", "gelu", "erf", "exp", "sigmoid", "silu", "sin", "cos", "log")
_DIVISIONS = ("div", "sqrt", "reciprocal", "rsqrt")


class Family(str, Enum):
    """Groups of operators that share one trained model."""

    PRODUCT = "product"
    CONVOLUTION = "convolution"
    ELEMENTWISE = "elementwise"
    SOFTMAX = "softmax"
    NORMALIZATION = "normalization"


class Physics(msgspec.Struct, frozen=True):
    """The constants of each family's physics."""

    product: ProductConstants
    convolution: ConvolutionConstants
    elementwise: StreamConstants
    softmax: StreamConstants
    normalization: StreamConstants


_OF_CLASS = {
    OperatorClass.MATRIX: Family.PRODUCT,
    OperatorClass.CONVOLUTION: Family.CONVOLUTION,
    OperatorClass.ELEMENTWISE: Family.ELEMENTWISE,
    OperatorClass.COPY: Family.ELEMENTWISE,
    OperatorClass.SOFTMAX: Family.SOFTMAX,
    OperatorClass.NORMALIZATION: Family.NORMALIZATION,
}
_ROW_KERNELS = {Family.SOFTMAX: RowKernel.SOFTMAX, Family.NORMALIZATION: RowKernel.NORM}


def family_of(shape: OperatorShape) -> Family | None:
    """The family of an operator. None if no similar operator was measured."""
    family = _OF_CLASS.get(operator_class(shape.operator))
    if family in (Family.PRODUCT, Family.CONVOLUTION):
        backward = "backward" in shape.operator
        return None if shape.flops <= 0 or (backward and family is Family.CONVOLUTION) else family
    if family is Family.NORMALIZATION and "layer_norm" not in shape.operator and "rms" not in shape.operator:
        return None
    if family is Family.SOFTMAX and "softmax" not in shape.operator:
        return None
    return family


def read(family: Family, shapes: Sequence[OperatorShape]) -> Sizes:
    """The sizes of operators of one family."""
    if family is Family.PRODUCT:
        found = [matrix_shape(shape) for shape in shapes]
        rows = np.array([(one.batch, one.rows, one.columns, one.inner) for one in found], dtype=float)
        return BatchedProducts(*np.maximum(1.0, rows).T)
    if family is Family.CONVOLUTION:
        return read_convolutions(shapes, MEASURED)
    return Streams(*np.array([_stream(shape) for shape in shapes], dtype=float).T)


def part(sizes: Sizes, index: NDArray[np.intp] | NDArray[np.bool_]) -> Sizes:
    """The selected sizes."""
    return type(sizes)(*(getattr(sizes, name)[index] for name in sizes.__dataclass_fields__))


def physics_us(family: Family, sizes: Sizes, gpu: LearnedGpu, constants: Physics) -> Floats:
    """Time of each operator by physics, in µs."""
    if isinstance(sizes, BatchedProducts):
        return product.physics_us(sizes, gpu, constants.product)
    if isinstance(sizes, Convolutions):
        return convolution.physics_us(sizes, gpu, constants.convolution)
    kernel = _ROW_KERNELS.get(family, RowKernel.NONE)
    return stream.physics_us(sizes, gpu, getattr(constants, family.value), kernel)


def least_us(sizes: Sizes, gpu: LearnedGpu) -> Floats:
    """Lower bound by the hardware, in µs."""
    if isinstance(sizes, BatchedProducts):
        return product.least_us(sizes, gpu)
    if isinstance(sizes, Convolutions):
        return convolution.least_us(sizes, gpu)
    return stream.least_us(sizes, gpu)


def extents(family: Family, sizes: Sizes) -> Floats:
    """The sizes of each operator as logarithms to base 2: one row for each operator.

    The time of operators that only move bytes is proportional to the bytes, so they have no sizes here.
    Operators that work row by row have the length of a row. It decides how many threads compute a row and
    which cache serves a second read.
    """
    if isinstance(sizes, BatchedProducts):
        columns = (sizes.batch, sizes.rows, sizes.columns, sizes.inner)
    elif isinstance(sizes, Convolutions):
        columns = (sizes.images, sizes.channels, sizes.filters, sizes.taps, sizes.size)
    elif family in _ROW_KERNELS:
        columns = (sizes.length,)
    else:
        return np.zeros((len(sizes.elements), 0))
    return np.log2(np.stack(columns, axis=1))


def features(sizes: Sizes, gpu: LearnedGpu, physics: Floats) -> Floats:
    """Features for the trees: one row for each operator."""
    if isinstance(sizes, BatchedProducts):
        return product.features(sizes, gpu, physics)
    if isinstance(sizes, Convolutions):
        return convolution.features(sizes, gpu, physics)
    return stream.features(sizes, gpu, physics)


def _stream(shape: OperatorShape) -> tuple[float, ...]:
    sizes = shape.outputs or shape.inputs
    main = max(sizes, key=prod) if sizes else ()
    elements = max(1, prod(main))
    effort = _effort(shape.operator, len(shape.inputs) > 1)
    return elements, max(1, main[-1] if main else 1), max(1, shape.bytes_moved or 8 * elements), effort


@lru_cache(maxsize=1024)
def _effort(name: str, several: bool) -> float:
    """``effort`` of ``Streams``. With ``several`` operands, a power has a tensor as exponent."""
    if any(mark in name for mark in _SERIES):
        return 2.0 + (several and "pow" in name)
    if name.endswith("native_dropout"):
        # Random numbers take ten rounds of multiplications.
        return 3.0
    return 1.0 if any(mark in name for mark in _DIVISIONS) else 0.0
