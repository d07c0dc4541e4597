"""How long a matrix product runs: its tiles, and what each level of the memory has to deliver for them.

The traffic follows Lym et al., "DeLTA: GPU Performance Model for Deep Learning Applications with In-depth Memory
System Traffic Analysis" (ISPASS 2019), §4: every tile draws its rows and columns from the second-level cache; memory
delivers what the tiles that run at the same time need and the cache does not hold from before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from skyline_predictors.memory_levels import CacheConstants, Floats, Levels, missing
from skyline_predictors.tiles import TILES, Tile, sides, waves

_SPLITS = (1, 4, 16, 64)
"""Into how many parts the inner dimension may be cut, for products with few tiles."""
_LEAST_INNER = 128
"""What is left of the inner dimension after splitting."""
_MOST_RESIDENT = 8.0


@dataclass(frozen=True, slots=True)
class Products:
    """Products of (rows x inner) and (inner x columns), ``batch`` of them at once, one in each row of the arrays.

    ``left_bytes`` and ``right_bytes`` are what the operands of one product take in memory. An operand that is
    gathered, as the patches of a convolution are, has each element in several places: ``left_reuse`` is how often
    within a tile. Rows and columns only name the two sides: exchanged, a product takes as long.
    """

    batch: Floats
    rows: Floats
    columns: Floats
    inner: Floats
    element_bytes: Floats
    left_bytes: Floats
    right_bytes: Floats
    left_reuse: Floats

    @classmethod
    def of(
        cls, batch: Floats, rows: Floats, columns: Floats, inner: Floats, element_bytes: Floats
    ) -> Products:
        """Of operands that lie in memory as they are."""
        return cls(
            batch,
            rows,
            columns,
            inner,
            element_bytes,
            rows * inner * element_bytes,
            inner * columns * element_bytes,
            np.ones_like(rows),
        )

    @property
    def out_bytes(self) -> Floats:
        """What all results take."""
        return self.batch * self.rows * self.columns * self.element_bytes


@dataclass(frozen=True, slots=True)
class TileConstants:
    """What calibration found, the same for all GPUs.

    ``tile_share`` is the share of a multiprocessor's peak that a tile of so many elements reaches,
    ``inner_overhead`` what filling and draining a tile costs in steps of the inner dimension, ``resident_elements``
    how many elements of tiles share one multiprocessor. ``split_us`` is the launch that sums the parts of a split
    product, ``overlap`` the power with which the levels combine, ``tail`` how much of its last, unfilled wave a
    product pays for.
    """

    tile_share: dict[int, float]
    inner_overhead: float
    resident_elements: float
    split_us: float
    overlap: float
    tail: float


def product_us(
    products: Products,
    levels: Levels,
    constants: TileConstants,
    cache: CacheConstants,
    tiles: tuple[Tile, ...] = TILES,
    splits: Sequence[int] = _SPLITS,
) -> Floats:
    """The time of each product with the best of the tiles, in µs; several rates of arithmetic give as many rows."""
    rows, columns = sides(tiles)
    area = rows * columns
    shares = np.array([[constants.tile_share[round(one)]] for one in area[:, 0].tolist()])
    resident = np.clip(constants.resident_elements / area, 1.0, _MOST_RESIDENT)
    down, across = np.ceil(products.rows / rows), np.ceil(products.columns / columns)
    fetched = _fetched(products, levels, cache, down, across, levels.multiprocessors * resident)
    step_us = 2 * area * levels.multiprocessors / (levels.flop_per_us[..., None] * shares)
    # What several levels take together (``together``), but for the root: that is drawn of the best tile alone.
    power = constants.overlap
    drawn_by_step = rows / products.left_reuse + columns
    best = np.full(products.rows.shape, np.inf)
    for split in splits:
        inner = products.inner / split
        possible = inner >= _LEAST_INNER if split > 1 else np.ones(inner.shape, dtype=bool)
        if not possible.any():
            continue
        blocks = split * products.batch * down * across
        turns = waves(blocks, levels.multiprocessors, resident, constants.tail)
        compute = turns * (inner + constants.inner_overhead) * step_us
        # Multiprocessors without a tile draw nothing.
        drawing = np.minimum(1.0, blocks / levels.multiprocessors)
        drawn = blocks * products.element_bytes * (inner * drawn_by_step + area)
        written = products.out_bytes * (2 * split if split > 1 else 1)
        traffic_us = drawn / (levels.l2_bytes_per_us * drawing)
        memory_us = (fetched + written) / (levels.memory_bytes_per_us * np.minimum(1.0, 2 * drawing))
        powers = compute**power + (traffic_us**power + memory_us**power)
        taken = powers.min(axis=-2) ** (1 / power) + (constants.split_us if split > 1 else 0.0)
        best = np.where(possible, np.minimum(best, taken), best)
    return best


def _fetched(
    products: Products, levels: Levels, cache: CacheConstants, down: Floats, across: Floats, at_once: Floats
) -> Floats:
    """Bytes of the operands that memory delivers: once, and again for each strip of tiles where the cache lost them.

    Tiles run column by column or row by row, whichever needs less. A strip is as wide as the tiles that run at the
    same time allow; the operand along it is read anew for each strip.
    """
    strips_across = np.ceil(across / np.maximum(1.0, np.floor(at_once / down)))
    strips_down = np.ceil(down / np.maximum(1.0, np.floor(at_once / across)))
    left_again = (
        (strips_across - 1) * missing(products.left_bytes, levels.l2_bytes, cache) * products.left_bytes
    )
    right_again = (
        (strips_down - 1) * missing(products.right_bytes, levels.l2_bytes, cache) * products.right_bytes
    )
    once = products.left_bytes + products.right_bytes
    everything = products.batch * once
    # What a call finds in the cache from the work before it.
    cold = missing(everything + products.out_bytes, levels.l2_bytes, cache)
    return everything * cold + products.batch * np.minimum(left_again, right_again)
