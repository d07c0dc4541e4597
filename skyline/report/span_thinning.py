"""Fewer pieces of work than there are, for a picture that could not show them all."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Indices, Times


def thinned(start: Times, end: Times, resolution: float) -> tuple[Indices, Times, Times, Indices]:
    """Pieces of a lane, with those shorter than the resolution joined to their neighbours in the same stretch of it.

    Gives, by start, for each piece that is left the number of the longest that it is made of, its start, its end,
    and how many it is made of.
    """
    if not len(start):
        nothing = np.zeros(0, np.int64)
        return nothing, start, end, nothing
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    short = end - start < resolution
    stretch = np.floor(start / resolution).astype(np.int64)
    # A new piece begins at every long one, after it, and where the next stretch begins.
    begins = np.ones(len(start), np.bool_)
    begins[1:] = ~short[1:] | ~short[:-1] | (stretch[1:] != stretch[:-1])
    first = np.flatnonzero(begins)
    piece: Ids = (np.cumsum(begins) - 1).astype(np.int32)
    count = np.bincount(piece, minlength=len(first)).astype(np.int64)
    by_length = np.lexsort((end - start, piece))
    longest = by_length[np.cumsum(count) - 1]
    return order[longest], start[first], np.maximum.reduceat(end, first), count
