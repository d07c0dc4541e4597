"""The tiles in which a product is computed, and the number of waves until all of them are done."""

from __future__ import annotations

import numpy as np

from skyline_predictors.memory_levels import Floats

Tile = tuple[int, int]
TILES: tuple[Tile, ...] = (
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


def sides(tiles: tuple[Tile, ...] = TILES) -> tuple[Floats, Floats]:
    """Rows and columns, one tile in each row of the arrays. They broadcast over products, one in each column."""
    both = np.array(tiles, dtype=float)
    return both[:, :1], both[:, 1:]


def waves(blocks: Floats, multiprocessors: Floats, resident: Floats, tail: float = 1.0) -> Floats:
    """Time of the busiest multiprocessor, in blocks. Blocks that share a multiprocessor slow each other down.

    ``resident`` blocks share one multiprocessor. ``tail`` is the share of the last, unfilled wave that costs
    time.
    """
    few = np.ceil(blocks / multiprocessors)
    slots = multiprocessors * resident
    exact = blocks / slots
    many = (exact + tail * (np.ceil(exact) - exact)) * resident
    return np.where(blocks <= slots, few, np.maximum(many, blocks / multiprocessors))
