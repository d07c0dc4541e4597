"""The work between a rank's collectives, as it was measured, where no graph of the rank can be built."""

from __future__ import annotations

import numpy as np

from skyline.job.rank_graph import Links, RankGraph, linked
from skyline.job.rank_work import RankWork
from skyline.job.spans import side_by_side

_SETTLES_US = 1000.0
"""On a busy machine a thread that ran a collective notes its end up to this long after who waited for it goes on."""


def as_measured(one: RankWork) -> RankGraph:
    """Each collective is taken to follow the last one that was over when it began, as long after it as measured.

    Where none was, it follows the arrival at the one before, or the beginning of the steps. So overlap with
    other collectives is kept; that the host may have run ahead of one, and need not have waited for it, is not
    seen.
    """
    start, end = one.exchanges.start_us, one.exchanges.end_us
    count = len(start)
    points = np.concatenate([start, one.step_end_us])
    settled = end - np.minimum(_SETTLES_US, (end - start) / 2)
    order = np.argsort(settled, kind="stable")
    # Of exchanges that are over at a point, the one that was over last. None is over before it begins itself.
    over = np.concatenate(
        [
            np.searchsorted(settled[order], start),
            np.searchsorted(settled[order], one.step_end_us, side="right"),
        ]
    )
    previous = np.append(order, -1)[over - 1]
    number = np.arange(len(points))
    by_start = (previous < 0) & (number > 0) & (number < count)
    source = np.where(by_start, number, previous + 1)
    since = np.concatenate([[one.begin_us], end])[previous + 1]
    since[by_start] = start[np.flatnonzero(by_start) - 1]
    links = Links(
        source, number + 1, np.where(previous < 0, np.maximum(0.0, points - since), points - since), by_start
    )
    # Host threads run several collectives of a channel at once.
    track = side_by_side(start, end)
    lanes = tuple(f"collectives {number + 1}" for number in range(int(track.max(initial=-1)) + 1))
    graph = linked(links, end - start, track.astype(np.int64), lanes, len(one.step_end_us))
    return RankGraph(
        graph,
        np.arange(1, count + 1),
        np.arange(count + 1, count + 1 + len(one.step_end_us)),
        one.begin_us,
        reduced=True,
    )
