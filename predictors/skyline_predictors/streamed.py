"""How long work runs that only passes over its data: elementwise operators, and those that work row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline_predictors.memory_levels import CacheConstants, Floats, Levels, missing, together

SHORT_ROW = 1024
"""Softmax keeps rows up to this length in registers and reads them once."""


@dataclass(frozen=True, slots=True)
class RowConstants:
    """What calibration found for operators that reduce each row and then write it.

    ``again`` is how often a row is read after the first time, ``rows_at_once`` how many rows a multiprocessor has in
    work together, ``row_us`` the time from the first read of a row to its last write that no other row can use.
    """

    again: float
    rows_at_once: float
    row_us: float


def streamed_us(moved_bytes: Floats, levels: Levels, cache: CacheConstants, overlap: float) -> Floats:
    """Each byte crosses the second-level cache once, and memory's bus unless the work before left it in the cache."""
    cold = missing(moved_bytes, levels.l2_bytes, cache)
    return together(
        overlap, moved_bytes / levels.l2_bytes_per_us, moved_bytes * cold / levels.memory_bytes_per_us
    )


def by_row_us(
    rows: Floats,
    row_bytes: Floats,
    moved_bytes: Floats,
    levels: Levels,
    cache: CacheConstants,
    overlap: float,
    constants: RowConstants,
) -> Floats:
    """Rows that are read again find themselves in the cache, if those in work together fit there."""
    in_work = np.minimum(rows, levels.multiprocessors * constants.rows_at_once)
    read_again = constants.again * rows * row_bytes
    lost = missing(in_work * row_bytes, levels.l2_bytes, cache)
    cold = missing(moved_bytes, levels.l2_bytes, cache)
    drawn = (moved_bytes + read_again) / levels.l2_bytes_per_us
    memory = (moved_bytes * cold + read_again * lost) / levels.memory_bytes_per_us
    waits = np.ceil(rows / (levels.multiprocessors * constants.rows_at_once)) * constants.row_us
    return together(overlap, drawn, memory, waits)
