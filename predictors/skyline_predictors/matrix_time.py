"""The time of a matrix product on a GPU: tiles computed in waves, or the memory traffic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.lazy_dataclass import dataclass
from skyline_predictors.memory_levels import Floats
from skyline_predictors.tiles import sides, waves

_SPLITS = (1, 4)
"""Numbers of parts into which the inner dimension of products with few tiles may be split."""
_LEAST_INNER_TO_SPLIT = 512
_MOST_RESIDENT = 4.0


@dataclass(frozen=True, slots=True)
class MatrixConstants:
    """Calibrated constants, one set for all GPUs.

    ``tile_share`` is the share of a multiprocessor's peak that a tile of this many elements reaches.
    ``inner_overhead`` is the cost of filling and draining a tile, in steps of the inner dimension. Blocks of
    up to ``resident_elements`` elements together share one multiprocessor. Arithmetic and memory traffic slow
    each other down if both take equally long: they combine as the ``overlap``-norm.
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
        """Number of floating-point operations. A multiply-add counts as two."""
        return 2 * self.batch * self.rows * self.columns * self.inner


@dataclass(frozen=True, slots=True)
class Throughput:
    """One GPU's sustained rates: the number of multiprocessors, and flop and bytes per µs."""

    multiprocessors: int
    flop_per_us: float
    bytes_per_us: float


@dataclass(frozen=True, slots=True)
class TileTimes:
    """Times of each product with each tile: arrays with a row per split, then per tile, and a column per product.

    ``taken`` is the time in µs without the memory traffic of operands. ``filled`` is the share of the tiles
    that belongs to the result, ``busy`` the share of the multiprocessors' time during which they compute a
    tile.
    """

    taken: Floats
    filled: Floats
    busy: Floats


def tile_times(
    shapes: Sequence[MatrixShape], element_bytes: int, gpu: Throughput, constants: MatrixConstants
) -> TileTimes:
    """The times with all tiles, without and with a split of the inner dimension.

    A tile is always computed whole, and the last wave takes as long as a full one. Small and odd shapes are
    therefore slow, by an amount that depends on the number of multiprocessors.
    """
    batch, rows, columns, inner = np.array(
        [(one.batch, one.rows, one.columns, one.inner) for one in shapes], dtype=float
    ).T
    down, across = sides()
    area = down * across
    shares = np.array([[constants.tile_share[round(one)]] for one in area[:, 0].tolist()])
    step_us = 2 * area * gpu.multiprocessors / (gpu.flop_per_us * shares)
    resident = np.clip(constants.resident_elements / area, 1.0, _MOST_RESIDENT)
    tiles = batch * np.ceil(rows / down) * np.ceil(columns / across)
    bandwidth = gpu.bytes_per_us * constants.bandwidth_share
    taken: list[Floats] = []
    busy: list[Floats] = []
    for split in _SPLITS:
        turns = waves(split * tiles, np.array(float(gpu.multiprocessors)), resident)
        time = turns * (inner / split + constants.inner_overhead) * step_us
        if split > 1:
            # The parts of a split product are written out, read back and summed.
            time = time + split * 2 * element_bytes * batch * rows * columns / bandwidth + constants.split_us
            time = np.where(inner < _LEAST_INNER_TO_SPLIT, np.inf, time)
        taken.append(time)
        busy.append(split * tiles / (turns * gpu.multiprocessors))
    filled = batch * rows * columns / (tiles * area)
    return TileTimes(np.stack(taken), np.broadcast_to(filled, (len(_SPLITS), *filled.shape)), np.stack(busy))


def matrix_us(
    shapes: Sequence[MatrixShape],
    bytes_moved: Floats,
    element_bytes: int,
    gpu: Throughput,
    constants: MatrixConstants,
) -> Floats:
    """The time of each product with the best tile, in µs."""
    best = tile_times(shapes, element_bytes, gpu, constants).taken.min(axis=(0, 1))
    bandwidth = gpu.bytes_per_us * constants.bandwidth_share
    power = constants.overlap
    return (best**power + (bytes_moved / bandwidth) ** power) ** (1 / power)
