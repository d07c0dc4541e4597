"""Matrix products: their time by physics, and the features of their departure from it.

Tiles and waves follow Yan, Wang and Chu, "Demystifying Tensor Cores to Optimize Half-Precision Matrix
Multiply" (IPDPS 2020) and Li et al., "Path Forward Beyond Simulators" (MICRO 2023). A library computes the
output in tiles. The multiprocessors take them in waves, and the last wave costs as much as a full one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline_predictors.learned.machine import LearnedGpu, RateConstants

Floats = NDArray[np.float64]
TILES = ((32, 32), (64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256))
_SPLITS = (1, 4, 16)
_LEAST_INNER = 128
_MAXWELL_BATCHED = ((64, 128), (128, 64))
_MAXWELL_LAYERS = ((32, 128), (128, 32))
"""Tiles of cuBLAS's kernels for Maxwell, which Pascal runs too. On P100 and P4 all batched products and most
linear layers use them. A product without a batch is treated as a linear layer."""
_LIKE = {(32, 128): 8192, (128, 32): 8192}
"""Area of the larger tiles that have the same arithmetic rate as these. Memory limits them: on the P100 they
reach 6.2 to 6.8 of 9.3 TFLOP/s, and 0.7 of the bandwidth."""
_ELEMENT = 4


class ProductConstants(msgspec.Struct, frozen=True):
    """Fitted constants, one set for all GPUs.

    ``tile_share`` is the rate of a multiprocessor full of tiles of this many elements, as a share of its
    issue rate. ``fill`` is the cost of starting and ending a tile, in steps of the inner dimension. A
    multiprocessor with 64 lanes holds ``resident`` elements of tiles. With fewer than ``saturating`` elements
    it runs slower, by the power ``lone``. ``turn_us`` is the time between consecutive tiles in one place: the
    first operands arrive and the last results leave, and no arithmetic hides it. ``split_us`` is the further
    launch of a product with a split inner dimension, ``overlap`` the power with which arithmetic and traffic
    combine, ``exposed`` the share of the time of writing results that nothing hides.
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
    """``batch`` products of (rows x inner) and (inner x columns): one array element for each operator."""

    batch: Floats
    rows: Floats
    columns: Floats
    inner: Floats

    @property
    def flops(self) -> Floats:
        """Number of floating-point operations. A multiply-add counts as two."""
        return 2 * self.batch * self.rows * self.columns * self.inner

    @property
    def left_bytes(self) -> Floats:
        """Bytes of all left operands."""
        return _ELEMENT * self.batch * self.rows * self.inner

    @property
    def right_bytes(self) -> Floats:
        """Bytes of all right operands."""
        return _ELEMENT * self.batch * self.inner * self.columns

    @property
    def out_bytes(self) -> Floats:
        """Bytes of all results."""
        return _ELEMENT * self.batch * self.rows * self.columns

    @property
    def total_bytes(self) -> Floats:
        """Bytes that are read and written at least once."""
        return self.left_bytes + self.right_bytes + self.out_bytes


def least_us(products: BatchedProducts, gpu: LearnedGpu) -> Floats:
    """A lower bound for every kernel in µs: the stated peak, and the bandwidth for bytes beyond the cache."""
    beyond = np.maximum(0.0, products.total_bytes - gpu.l2_bytes)
    return np.maximum(products.flops / gpu.flop_per_us, beyond / gpu.bytes_per_us)


def physics_us(products: BatchedProducts, gpu: LearnedGpu, constants: ProductConstants) -> Floats:
    """Time with the best of the tiles that the library has, in µs."""
    best = np.full(products.rows.shape, np.inf)
    power = constants.overlap
    for tile, offered in _library(products, gpu):
        again, share = _reread_us(products, gpu, constants, tile), _share(constants, tile)
        for split in _SPLITS:
            fits = offered if split == 1 else offered & (products.inner / split >= _LEAST_INNER)
            taken = _sustained_us(products, gpu, constants, tile, split, share)
            best = np.minimum(best, np.where(fits, (taken**power + again**power) ** (1 / power), np.inf))
    return _with_traffic(best, products, gpu, constants, products.total_bytes)


def plain_us(
    products: BatchedProducts, gpu: LearnedGpu, constants: ProductConstants, bytes_moved: Floats | None = None
) -> Floats:
    """Time with the best of all tiles if caches serve repeated reads, in µs. For convolutions, whose patches overlap.

    ``bytes_moved`` is given if the operands are not read in this form.
    """
    best = np.full(products.rows.shape, np.inf)
    for split in _SPLITS:
        fits = (split == 1) | (products.inner / split >= _LEAST_INNER)
        for tile in TILES:
            share = constants.tile_share[tile[0] * tile[1]]
            taken = _sustained_us(products, gpu, constants, tile, split, share)
            best = np.minimum(best, np.where(fits, taken, np.inf))
    moved = products.total_bytes if bytes_moved is None else bytes_moved
    return _with_traffic(best, products, gpu, constants, moved)


def _library(
    products: BatchedProducts, gpu: LearnedGpu
) -> Iterator[tuple[tuple[int, int], NDArray[np.bool_]]]:
    """Tiles, each with a mask of the products that can use it."""
    batched = products.batch > 1
    if not gpu.maxwell_kernels:
        yield from ((tile, np.ones_like(batched)) for tile in TILES)
    else:
        yield from ((tile, batched) for tile in _MAXWELL_BATCHED)
        yield from ((tile, ~batched) for tile in _MAXWELL_LAYERS)


def _with_traffic(
    times_us: Floats,
    products: BatchedProducts,
    gpu: LearnedGpu,
    constants: ProductConstants,
    bytes_moved: Floats,
) -> Floats:
    traffic = bytes_moved / (gpu.bytes_per_us * constants.bandwidth_share)
    power = constants.overlap
    together = (times_us**power + traffic**power) ** (1 / power)
    return np.asarray(together + constants.exposed * products.out_bytes / gpu.bytes_per_us)


def _sustained_us(
    products: BatchedProducts,
    gpu: LearnedGpu,
    constants: ProductConstants,
    tile: tuple[int, int],
    split: int,
    share: float,
) -> Floats:
    taken = _with_tile(products, gpu, constants, tile, split, share)
    return np.asarray(taken * _stretch(taken, gpu))


def _share(constants: ProductConstants, tile: tuple[int, int]) -> float:
    """Rate of a tile. Larger tiles load fewer operands per multiply-add, so they are never slower."""
    area = _LIKE.get(tile, tile[0] * tile[1])
    return max(share for smaller, share in constants.tile_share.items() if smaller <= area)


def _reread_us(
    products: BatchedProducts, gpu: LearnedGpu, constants: ProductConstants, tile: tuple[int, int]
) -> Floats:
    """Time of the tiles' reads from memory. Operands of products in progress may stay in the second-level cache."""
    rows, columns = tile
    of_each = np.ceil(products.rows / rows) * np.ceil(products.columns / columns)
    moved = products.batch * of_each * (rows + columns) * products.inner * _ELEMENT
    filling = max(1.0, min(8.0, gpu.lanes * constants.resident / (rows * columns)))
    under_way = np.minimum(products.batch, np.ceil(gpu.multiprocessors * filling / of_each))
    working = (products.left_bytes + products.right_bytes) / products.batch * under_way
    missed = 1 / (1 + (gpu.l2_bytes / working) ** 2)
    return moved * missed / (gpu.bytes_per_us * constants.bandwidth_share)


def _stretch(times_us: Floats, gpu: LearnedGpu) -> Floats:
    """Factor on kernel times. Long kernels run at the lower clock that the board's power sustains."""
    return np.asarray(1.0 + (1 / gpu.sustained_clock - 1) * times_us / (times_us + gpu.settles_us))


def _with_tile(
    products: BatchedProducts,
    gpu: LearnedGpu,
    constants: ProductConstants,
    tile: tuple[int, int],
    split: int,
    share: float,
) -> Floats:
    rows, columns = tile
    area = rows * columns
    blocks = split * products.batch * np.ceil(products.rows / rows) * np.ceil(products.columns / columns)
    filling = max(1.0, min(8.0, gpu.lanes * constants.resident / area))
    few = blocks <= gpu.multiprocessors * filling
    each = np.ceil(blocks / gpu.multiprocessors)
    turns = np.where(few, each, np.ceil(blocks / (gpu.multiprocessors * filling)) * filling)
    alone = np.minimum(1.0, each * area / (gpu.lanes * constants.saturating)) ** constants.lone
    rate = gpu.issued_flop_per_us / gpu.multiprocessors * share
    work = turns * 2 * area * (products.inner / split + constants.fill)
    taken = work / (rate * np.where(few, alone, 1.0)) + turns / filling * constants.turn_us
    if split > 1:
        taken = taken + split * 2 * products.out_bytes / gpu.bytes_per_us + constants.split_us
    return taken


def features(products: BatchedProducts, gpu: LearnedGpu, physics: Floats) -> Floats:
    """Features for the departure of a product from physics: ratios and sizes, without the GPU's identity."""
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
    """Number of times that a size can be halved, at most 7. Wide loads and whole tiles need such multiples."""
    return sum((size % (1 << step) == 0).astype(float) for step in range(1, 8)) + np.zeros_like(size)
