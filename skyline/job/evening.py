"""What-if: the straggler is as fast as a typical rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from skyline.job.alignment import Alignment
from skyline.job.rank_graph import RankGraph
from skyline.job.waiting import CollectiveWaits


def typical(alignment: Alignment, split: CollectiveWaits, but: int) -> int | None:
    """Place of the middle one of the other ranks, by the time it spends waiting; None where there is no other."""
    waited = np.nansum(np.where(split.entry, 0.0, split.waiting_us), axis=1)
    others = sorted(
        (place for place in range(len(alignment.ranks)) if place != but), key=lambda at: waited[at]
    )
    # Of two in the middle the one that waits longer is the faster one: the gain is then no underestimate.
    return others[len(others) // 2] if others else None


def as_fast_as(
    alignment: Alignment, graphs: Sequence[RankGraph], place: int, model: int
) -> tuple[RankGraph, ...] | None:
    """The graphs with one rank doing its work as another one does, between the same collectives.

    It begins its recording when it did. None where the two do not take part in the same collectives, or did not
    record as many steps: then nothing says which work corresponds to which.
    """
    rows, model_rows = alignment.instances.row[place], alignment.instances.row[model]
    if not np.array_equal(rows >= 0, model_rows >= 0) or not (rows >= 0).any():
        return None
    if len(graphs[place].step_end) != len(graphs[model].step_end):
        return None
    shared = np.flatnonzero(rows >= 0)
    exchange = np.full(len(graphs[place].exchange), -1, np.int64)
    exchange[rows[shared]] = graphs[model].exchange[model_rows[shared]]
    changed = replace(graphs[model], exchange=exchange, begin_us=graphs[place].begin_us, pace=None)
    return tuple(changed if at == place else graph for at, graph in enumerate(graphs))
