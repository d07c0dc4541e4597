"""Table lookups with one element per thread, as in PyTorch before 2.8. Instructions limit them, not bytes."""

from __future__ import annotations

from math import prod

from skyline.trace.record import OperatorShape
from skyline_predictors.learned.machine import LearnedGpu

OPERATOR = "aten::index_select_each"
"""The name of such lookups. Newer versions copy whole vectors (kernel ``vectorized_gather_kernel``)."""
_INSTRUCTIONS = 206.0
"""Instructions for one element: each thread divides its number by the length of a row and reads the index
again. This is the median of P4 (166), P100 (206) and V100 (219), from lookups inside models. The A100-80GB
has 220, the H100 200, the T4 260."""
_WARP = 32


def least_us(shape: OperatorShape, gpu: LearnedGpu) -> float:
    """Time of the instructions at the clock that the board sustains, in µs. 0 for all other operators."""
    if shape.operator != OPERATOR:
        return 0.0
    elements = sum(map(prod, shape.outputs))
    return elements * _INSTRUCTIONS / _WARP / (gpu.warps_per_us * gpu.sustained_clock)
