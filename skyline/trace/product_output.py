"""Outputs of an operator call. PyTorch's profiler records only inputs; the inputs of a product determine its output."""

from __future__ import annotations

from functools import lru_cache

from skyline.trace.record import OperatorShape

_OF_ROWS = ("linear", "mkldnn_linear", "_linear_pointwise")
"""Products with a transposed second matrix, which has one row for each output column."""
_OF_MATRICES = ("mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "matmul", "_scaled_mm", "_int_mm")


@lru_cache(maxsize=1 << 12)
def outputs_of(shape: OperatorShape) -> tuple[tuple[int, ...], ...]:
    """The dimensions of the outputs: as recorded, else as implied by the inputs of a product. Empty if unknown."""
    matrices = [size for size in shape.inputs if len(size) >= 2]
    name = shape.operator.rpartition("::")[2]
    if shape.outputs or len(matrices) < 2:
        return shape.outputs
    if name in _OF_ROWS:
        left, right = matrices[0], matrices[1]
        return ((*left[:-1], right[0]),) if left[-1] == right[-1] else ()
    if name in _OF_MATRICES:
        left, right = matrices[-2:]
        batch = max(left[:-2], right[:-2], key=len)
        return ((*batch, left[-2], right[-1]),) if left[-1] == right[-2] else ()
    return ()
