"""The work between a rank's collectives, as it was measured, where no graph of the rank can be built."""

from __future__ import annotations

import numpy as np

from skyline.job.rank_graph import Links, RankGraph, linked
from skyline.job.rank_work import RankWork
from skyline.job.spans import side_by_side


def as_measured(one: RankWork) -> RankGraph:
    """Each collective is taken to follow the last one that was over when it began, as long after it as measured.

    Where none was, it follows the arrival at the one before, or the beginning of the steps. So overlap with
    other collectives is kept; that the host may have run ahead of one, and need not have waited for it, is not
    seen.
    """
    start, end = one.exchanges.start_us, one.exchanges.end_us
    count = len(start)
    points = np.concatenate([start, one.step_end_us])
    order = np.argsort(end, kind="stable")
    # Of exchanges that are over at a point, the one that was over last.
    over = np.searchsorted(end[order], points, side="right") - 1
    # An exchange of no length is over when it begins: it cannot follow itself or a later one.
    previous = np.full(len(points), -1)
    previous[over >= 0] = order[over[over >= 0]]
    itself = np.arange(len(points))
    previous[:count][previous[:count] >= itself[:count]] = -1
    earlier = np.where(itself < count, itself - 1, count - 1)
    by_start = (previous < 0) & (earlier >= 0)
    by_start[count:] = False
    source = np.where(previous >= 0, previous + 1, np.where(by_start, earlier + 1, 0))
    since = np.concatenate([[one.begin_us], start if count else np.empty(0)])[np.where(by_start, source, 0)]
    since = np.where(previous >= 0, np.append(end, 0.0)[previous], since)
    links = Links(source, itself + 1, np.maximum(0.0, points - since), by_start)
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
