"""The part of a GPU that a product fills: of its tiles, and of the waves in which they are computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.predict.operator_time import TileUse
from skyline.trace.record import OperatorShape
from skyline_predictors.matrix_time import MatrixConstants, MatrixShape, Throughput, tile_times
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.shape_reading import convolution_shape, matrix_shape


def product_of(kind: OperatorClass, shape: OperatorShape) -> MatrixShape | None:
    """The product behind an operator; None for what is none."""
    if shape.flops <= 0:
        return None
    if kind is OperatorClass.MATRIX:
        return matrix_shape(shape)
    return convolution_shape(shape) if kind is OperatorClass.CONVOLUTION else None


def tile_uses(
    products: Sequence[MatrixShape], element_bytes: int, gpu: Throughput, constants: MatrixConstants
) -> list[TileUse]:
    """The use of each product by the tile that takes the least time."""
    times = tile_times(products, element_bytes, gpu, constants)
    count = len(products)
    best = times.taken.reshape(-1, count).argmin(axis=0)
    column = np.arange(count)
    filled: list[float] = times.filled.reshape(-1, count)[best, column].tolist()
    busy: list[float] = times.busy.reshape(-1, count)[best, column].tolist()
    return [TileUse(share, time) for share, time in zip(filled, busy, strict=True)]
