"""Copies from and to pageable memory: the call returns after the data have moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Ids, Indices, Times
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.names import Names
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_ROUNDING_US = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class BlockingCopies:
    """Copies that blocked their caller: the GPU work, and the moment at which the wait ended."""

    work: Indices
    """Indices into the GPU work."""
    point_us: Times
    staged: Indices
    """1 where the call returned before its copy was done, else 0."""
    own_us: Times
    """Time of the call itself before the copy could begin, in µs."""


def blocking_copies(trace: ProfilerTrace, names: Names, work: GpuWork) -> BlockingCopies:
    """The copies whose call cannot have returned immediately.

    ``cudaMemcpyAsync`` is asynchronous for pinned memory only. From pageable memory it returns when the data are
    in a staging buffer, possibly before the last part arrives on the GPU. To pageable memory it returns when the
    copy is done. Small copies are staged before they begin and block nobody.
    """
    start, end = work.start_us, work.end_us
    called, free = work.called_us(trace), work.free_us
    returned = np.where(work.call >= 0, called + trace.duration_us[work.call], -np.inf)
    copy = (trace.category[work.event] == Category.COPY) & ~names.on_device[work.event]
    holding = copy & (returned > start) & (names.pageable[work.event] | (returned >= end - _ROUNDING_US))
    chosen = np.flatnonzero(holding)
    staged = (returned < end - _ROUNDING_US)[chosen]
    point = np.where(staged, start[chosen], np.minimum(end, returned)[chosen])
    own = start[chosen] - np.maximum(called[chosen], np.minimum(free[chosen], start[chosen]))
    return BlockingCopies(chosen, point, staged.astype(np.int64), np.maximum(own, 0.0))


def blocked(copies: BlockingCopies, first_work: int, points: Ids) -> Dependencies:
    """Dependencies of the tasks behind the split points of the calls on the copies of these calls.

    GPU work is numbered from ``first_work``; ``points`` are the numbers of the split points.
    """
    return Dependencies.columns(copies.work + first_work, points, Cause.SYNC, from_start=copies.staged == 1)
