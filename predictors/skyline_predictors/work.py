"""Operators read into arrays, a row for each: read once, and then timed on any GPU with any constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skyline.trace.shape import OperatorShape
from skyline_predictors.convolved import Convolutions
from skyline_predictors.memory_levels import Floats
from skyline_predictors.operator_class import OperatorClass, operator_class
from skyline_predictors.shape_reading import (
    bytes_moved,
    is_backward,
    products,
    read_convolutions,
    row_length,
    row_sizes,
)
from skyline_predictors.tiled_product import Products


@dataclass(frozen=True, slots=True)
class ReducedRows:
    """What is reduced row by row: how many rows there are, the bytes of one, and the last dimension as it is given."""

    count: Floats
    row_bytes: Floats
    length: Floats


@dataclass(frozen=True, slots=True)
class Work:
    """Operators of one class in one number format.

    ``sizes`` are what the time of such operators depends on beside arithmetic and bytes; for classes that have no
    model of their own, rows.
    """

    kind: OperatorClass
    number_format: str
    shapes: Sequence[OperatorShape]
    flops: Floats
    moved_bytes: Floats
    backward: NDArray[np.bool_]
    sizes: Products | Convolutions | ReducedRows

    @property
    def extents(self) -> Floats:
        """Logarithms (base 2) of the sizes that decide how well each runs: one row for each."""
        sizes = self.sizes
        if isinstance(sizes, Products):
            columns = (sizes.batch, sizes.rows, sizes.columns, sizes.inner)
        elif isinstance(sizes, Convolutions):
            columns = (sizes.images * sizes.out_size, sizes.channels, sizes.filters, sizes.taps)
        else:
            columns = (sizes.count, sizes.row_bytes)
        return np.log2(np.maximum(1.0, np.stack(columns, axis=1)))


def read_work(kind: OperatorClass, shapes: Sequence[OperatorShape], number_format: str) -> Work:
    """Operators that are all of this class and format."""
    return Work(
        kind,
        number_format,
        shapes,
        np.array([float(shape.flops) for shape in shapes]),
        bytes_moved(shapes),
        np.array([is_backward(shape) for shape in shapes]),
        _sizes(kind, shapes, number_format),
    )


def grouped(shapes: Sequence[OperatorShape], formats: Sequence[str]) -> list[tuple[list[int], Work]]:
    """All operators by class and format, each group with the places that its members had."""
    places: dict[tuple[OperatorClass, str], list[int]] = defaultdict(list)
    for place, (shape, number_format) in enumerate(zip(shapes, formats, strict=True)):
        places[operator_class(shape.operator), number_format].append(place)
    return [
        (own, read_work(kind, [shapes[place] for place in own], number_format))
        for (kind, number_format), own in places.items()
    ]


def _sizes(
    kind: OperatorClass, shapes: Sequence[OperatorShape], number_format: str
) -> Products | Convolutions | ReducedRows:
    if kind is OperatorClass.MATRIX:
        return products(shapes, number_format)
    if kind is OperatorClass.CONVOLUTION:
        return read_convolutions(shapes, number_format)
    count, row_bytes = row_sizes(shapes, number_format)
    return ReducedRows(count, row_bytes, np.array([row_length(shape) for shape in shapes], dtype=float))
