"""CPU time between pieces: unrecorded Python and dispatch."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.rules.pieces import Pieces


def gaps_of(pieces: Pieces, idle_after: Indices) -> Times:
    """For each piece the time, in µs, to the next one of its thread; 0 if the thread waits after the piece."""
    gap = np.zeros(len(pieces))
    if len(pieces):
        same = pieces.thread[1:] == pieces.thread[:-1]
        gap[:-1][same] = np.maximum(pieces.start_us[1:] - pieces.end_us[:-1], 0.0)[same]
    gap[idle_after] = 0.0
    return gap
