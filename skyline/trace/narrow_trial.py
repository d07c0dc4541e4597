"""How long a product takes in a narrower number format, tried where the script runs."""

from __future__ import annotations

from dataclasses import dataclass

PRODUCTS = (
    "aten::linear",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::matmul",
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    "aten::scaled_dot_product_attention",
)
"""The operators that are tried."""


@dataclass(frozen=True, slots=True)
class NarrowTrial:
    """Times of one operator over those in float32, on tensors of the sizes that the script calls it with.

    ``forward`` and ``backward`` are ratios; casts from and to float32 are not in them. ``backward`` is 0 where no
    gradient could be had. ``elements`` is how many numbers the result has, by which its backward work is recognized.
    """

    operator: str
    inputs: tuple[tuple[int, ...], ...]
    number_format: str
    forward: float
    backward: float
    elements: int
    flops: int = 0
