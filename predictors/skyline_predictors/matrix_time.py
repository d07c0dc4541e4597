"""How long a matrix product runs on a GPU: tiles, handed out in waves, against what memory can deliver."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

_TILES = (
    (256, 128),
    (128, 256),
    (128, 128),
    (128, 64),
    (64, 128),
    (64, 64),
    (32, 128),
    (128, 32),
    (32, 32),
)
"""Rows and columns of the output that one thread block computes, as the vendors' libraries offer them."""
_SPLITS = (1, 4)
"""Into how many parts the inner dimension may be cut, for products with few tiles."""
_LEAST_INNER_TO_SPLIT = 512


@dataclass(frozen=True, slots=True)
class MatrixConstants:
    """What calibration found, the same for all GPUs.

    ``tile_share`` is the share of a multiprocessor's peak that a tile of so many elements reaches,
    ``inner_overhead`` what filling and draining a tile costs in steps of the inner dimension. Blocks of up to
    ``resident_elements`` elements together share one multiprocessor. Where arithmetic and memory traffic take alike
    long they hinder each other: they combine as the ``overlap``-norm.
    """

    tile_share: dict[int, float]
    inner_overhead: float
    resident_elements: float
    bandwidth_share: float
    split_us: float
    overlap: float


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """``batch`` products of (rows x inner) and (inner x columns)."""

    batch: int
    rows: int
    columns: int
    inner: int

    @property
    def flops(self) -> int:
        """A multiply-add counts as two."""
        return 2 * self.batch * self.rows * self.columns * self.inner


@dataclass(frozen=True, slots=True)
class Throughput:
    """What one GPU sustains: multiprocessors, and its rates in flop and bytes per µs."""

    multiprocessors: int
    flop_per_us: float
    bytes_per_us: float


def matrix_us(
    shape: MatrixShape, bytes_moved: int, element_bytes: int, gpu: Throughput, constants: MatrixConstants
) -> float:
    """The time of the best of the tiles in µs.

    A tile is computed whole even where the product does not fill it, and the last wave takes as long as a full
    one: both make small and odd shapes slow, by an amount that depends on the number of multiprocessors.
    """
    rate = gpu.flop_per_us / gpu.multiprocessors
    bandwidth = gpu.bytes_per_us * constants.bandwidth_share
    best = float("inf")
    for split in _SPLITS:
        if split > 1 and shape.inner < _LEAST_INNER_TO_SPLIT:
            continue
        # The parts of a split product are written out, read back and summed.
        extra_us = 0.0
        if split > 1:
            partial_bytes = split * 2 * element_bytes * shape.batch * shape.rows * shape.columns
            extra_us = partial_bytes / bandwidth + constants.split_us
        inner = shape.inner / split + constants.inner_overhead
        for rows, columns in _TILES:
            area = rows * columns
            blocks = split * shape.batch * ceil(shape.rows / rows) * ceil(shape.columns / columns)
            waves = _waves(blocks, gpu.multiprocessors, constants.resident_elements / area)
            best = min(best, waves * 2 * area * inner / (rate * constants.tile_share[area]) + extra_us)
    power = constants.overlap
    return (best**power + (bytes_moved / bandwidth) ** power) ** (1 / power)


def _waves(blocks: int, multiprocessors: int, resident: float) -> float:
    """How many blocks' time the busiest multiprocessor needs; blocks that share one slow each other down."""
    resident = max(1.0, min(4.0, resident))
    if blocks <= multiprocessors * resident:
        return ceil(blocks / multiprocessors)
    return ceil(blocks / (multiprocessors * resident)) * resident
