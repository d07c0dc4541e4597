"""Matrix products: how long physics says they run, and what tells how far a real one departs from that.

Tiles and waves after Yan, Wang and Chu, "Demystifying Tensor Cores to Optimize Half-Precision Matrix Multiply"
(IPDPS 2020) and Li et al., "Path Forward Beyond Simulators" (MICRO 2023): a library computes the output in tiles that
are handed out to multiprocessors in waves, the last of which costs as much as a full one.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline_predictors.learned.machine import LearnedGpu, RateConstants

Floats = NDArray[np.float64]
TILES = ((32, 32), (64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256))
_SPLITS = (1, 4, 16)
_LEAST_INNER = 128
_ELEMENT = 4


class ProductConstants(msgspec.Struct, frozen=True):
    """Fitted constants, one set for all GPUs.

    ``tile_share`` is how fast a multiprocessor full of tiles of so many elements runs, as a share of what it
    can issue. ``fill`` are the steps of the inner dimension that starting and ending a tile costs. A multiprocessor
    with 64 lanes holds ``resident`` elements of tiles; with fewer than ``saturating`` it runs slower, as the power
    ``lone``.
    ``turn_us`` is what passes between the tiles of one place, for the first operands to come and the last results to
    leave, which no arithmetic hides. ``split_us`` is the further launch of a product whose inner dimension is cut,
    ``overlap`` the power with which arithmetic and traffic combine, ``exposed`` the share of the time of writing
    results that nothing hides.
    """

    rates: RateConstants
    tile_share: dict[int, float]
    fill: float
    resident: float
    saturating: float
    lone: float
    bandwidth_share: float
    overlap: float
    split_us: float
    turn_us: float
    exposed: float


@dataclass(frozen=True, slots=True)
class BatchedProducts:
    """``batch`` products of (rows x inner) and (inner x columns), one for each place of the arrays."""

    batch: Floats
    rows: Floats
    columns: Floats
    inner: Floats

    @property
    def flops(self) -> Floats:
        """A multiply-add counts as two."""
        return 2 * self.batch * self.rows * self.columns * self.inner

    @property
    def left_bytes(self) -> Floats:
        """All left operands."""
        return _ELEMENT * self.batch * self.rows * self.inner

    @property
    def right_bytes(self) -> Floats:
        """All right operands."""
        return _ELEMENT * self.batch * self.inner * self.columns

    @property
    def out_bytes(self) -> Floats:
        """All results."""
        return _ELEMENT * self.batch * self.rows * self.columns

    @property
    def total_bytes(self) -> Floats:
        """Bytes that are read and written at least once."""
        return self.left_bytes + self.right_bytes + self.out_bytes


def least_us(products: BatchedProducts, gpu: LearnedGpu) -> Floats:
    """A bound that no kernel beats: the stated peak, and the stated bandwidth for all that the cache cannot hold."""
    beyond = np.maximum(0.0, products.total_bytes - gpu.l2_bytes)
    return np.maximum(products.flops / gpu.flop_per_us, beyond / gpu.bytes_per_us)


def physics_us(
    products: BatchedProducts, gpu: LearnedGpu, constants: ProductConstants, bytes_moved: Floats | None = None
) -> Floats:
    """With the best of the tiles, in µs; ``bytes_moved`` where operands are not read as they are."""
    best = np.full(products.rows.shape, np.inf)
    for split in _SPLITS:
        for tile in TILES:
            taken = _with_tile(products, gpu, constants, tile, split)
            if split > 1:
                taken = np.where(products.inner / split >= _LEAST_INNER, taken, np.inf)
            best = np.minimum(best, taken)
    best = best * _stretch(best, gpu)
    moved = products.total_bytes if bytes_moved is None else bytes_moved
    traffic = moved / (gpu.bytes_per_us * constants.bandwidth_share)
    power = constants.overlap
    together = (best**power + traffic**power) ** (1 / power)
    return np.asarray(together + constants.exposed * products.out_bytes / gpu.bytes_per_us)


def _stretch(times_us: Floats, gpu: LearnedGpu) -> Floats:
    """Factor on kernels that are long enough for the clock to fall to what the power sustains."""
    return np.asarray(1.0 + (1 / gpu.sustained_clock - 1) * times_us / (times_us + gpu.settles_us))


def _with_tile(
    products: BatchedProducts, gpu: LearnedGpu, constants: ProductConstants, tile: tuple[int, int], split: int
) -> Floats:
    rows, columns = tile
    area = rows * columns
    blocks = split * products.batch * np.ceil(products.rows / rows) * np.ceil(products.columns / columns)
    filling = max(1.0, min(8.0, gpu.lanes * constants.resident / area))
    few = blocks <= gpu.multiprocessors * filling
    each = np.ceil(blocks / gpu.multiprocessors)
    turns = np.where(few, each, np.ceil(blocks / (gpu.multiprocessors * filling)) * filling)
    alone = np.minimum(1.0, each * area / (gpu.lanes * constants.saturating)) ** constants.lone
    rate = gpu.issued_flop_per_us / gpu.multiprocessors * constants.tile_share[area]
    work = turns * 2 * area * (products.inner / split + constants.fill)
    taken = work / (rate * np.where(few, alone, 1.0)) + turns / filling * constants.turn_us
    if split > 1:
        taken = taken + split * 2 * products.out_bytes / gpu.bytes_per_us + constants.split_us
    return taken


def features(products: BatchedProducts, gpu: LearnedGpu, physics: Floats) -> Floats:
    """Features for the departure of a product from physics: ratios and sizes, no GPU."""
    arithmetic = products.flops / gpu.issued_flop_per_us
    traffic = products.total_bytes / gpu.bytes_per_us
    columns = [
        np.log2(products.rows),
        np.log2(products.columns),
        np.log2(products.inner),
        np.log2(products.batch),
        np.log2(arithmetic / traffic),
        np.log2(physics / np.maximum(arithmetic, traffic)),
    ]
    for rows, across in TILES:
        down_tiles, across_tiles = np.ceil(products.rows / rows), np.ceil(products.columns / across)
        waves = products.batch * down_tiles * across_tiles / gpu.multiprocessors
        columns.append(down_tiles * rows * across_tiles * across / (products.rows * products.columns))
        columns.append(np.ceil(waves) / waves)
        if rows == across:
            columns.append(np.log2(waves))
    columns += [
        np.log2(one / gpu.l2_bytes)
        for one in (products.total_bytes, products.left_bytes, products.right_bytes, products.out_bytes)
    ]
    columns += [_alignment(one) for one in (products.rows, products.columns, products.inner)]
    return np.minimum(np.stack(columns, axis=1), 64.0)


def _alignment(size: Floats) -> Floats:
    """Number of times that a size can be halved, up to 7: wide loads and whole tiles need multiples."""
    return sum((size % (1 << step) == 0).astype(float) for step in range(1, 8)) + np.zeros_like(size)
