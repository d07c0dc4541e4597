"""Whose each moment of a timeline is, where several lanes are busy at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.simulate.timeline import Timeline


def moments_us(
    timeline: Timeline, groups: Sequence[Indices], begin_us: float = 0.0, end_us: float | None = None
) -> Times:
    """For each task the µs between two times that are its own.

    A moment belongs to the first of the groups of which a task runs then, gaps included, and in the group to the
    task that started first. Moments at which nothing of any group runs belong to nobody.
    """
    until = timeline.makespan_us if end_us is None else end_us
    owned = np.zeros(len(timeline.starts))
    taken = np.empty(0), np.empty(0)
    for group in groups:
        start = np.clip(timeline.starts[group], begin_us, until)
        end = np.clip(timeline.freed[group], begin_us, until)
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        start = np.maximum(start, np.append(begin_us, np.maximum.accumulate(end))[:-1])
        longer = end > start
        start, end, chosen = start[longer], end[longer], group[order][longer]
        if not len(chosen):
            continue
        owned[chosen] = end - start - (_before(end, *taken) - _before(start, *taken))
        taken = _united(np.concatenate([taken[0], start]), np.concatenate([taken[1], end]))
    return np.maximum(owned, 0.0)


def _before(moments: Times, begins: Times, ends: Times) -> Times:
    """How much of the spans, which do not overlap and are in order, lies before each moment."""
    if not len(begins):
        return np.zeros(len(moments))
    so_far = np.append(0.0, np.cumsum(ends - begins))
    count = np.searchsorted(begins, moments, side="right")
    beyond = np.maximum(0.0, ends[np.maximum(count - 1, 0)] - moments)
    return so_far[count] - np.where(count > 0, beyond, 0.0)


def _united(begins: Times, ends: Times) -> tuple[Times, Times]:
    """Spans that do not overlap and cover the same moments, in order."""
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    fresh = np.append(True, begins[1:] > reached[:-1])
    last = np.append(fresh[1:], True)
    return begins[fresh], reached[last]
