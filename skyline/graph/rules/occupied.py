"""A full GPU: a kernel on one stream waits for room while a kernel on another stream takes all of it."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.event_wait import EventWaits
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_NEGLIGIBLE_US = 50.0


def occupied(
    trace: ProfilerTrace, work: GpuWork, constants: LaunchConstants, explained: Indices
) -> EventWaits:
    """Pairs of a kernel that filled the GPU and the one on another stream that came late for it.

    A GPU hands out its places in the order of launches, so a later kernel's first block starts when the last
    blocks of the earlier one leave room. Taken where nothing else explains why a kernel was late
    (``explained`` are places that something explains), another stream was running a kernel when it began or
    just before, and waiting for that kernel's end is nearer to what was measured than not waiting.
    """
    follows = np.append(False, work.lane[1:] == work.lane[:-1])[: len(work)]
    called = np.where(work.call >= 0, trace.start_us[work.call], np.inf)
    free = np.where(follows, np.append(-np.inf, work.end_us[:-1])[: len(work)], -np.inf)
    ready = np.maximum(called + constants.launch_latency_us, free + constants.turnaround_us)
    kernel = trace.category[work.event] == Category.KERNEL
    late = np.flatnonzero((work.start_us - ready > _NEGLIGIBLE_US) & kernel)
    late = late[~np.isin(late, explained)]
    running = np.flatnonzero(kernel)
    running = running[np.argsort(work.start_us[running], kind="stable")]
    reached = np.maximum.accumulate(work.end_us[running]) if len(running) else np.empty(0)
    awaited: list[int] = []
    waiting: list[int] = []
    for one in late.tolist():
        begin = work.start_us[one]
        first = int(np.searchsorted(reached, ready[one], side="right"))
        behind = int(np.searchsorted(work.start_us[running], begin))
        others = running[first:behind]
        others = others[(work.lane[others] != work.lane[one]) & (work.end_us[others] > ready[one])]
        if not len(others):
            continue
        nearest = int(others[np.argmin(np.abs(work.end_us[others] - begin))])
        if abs(work.end_us[nearest] - begin) < begin - ready[one]:
            awaited.append(nearest)
            waiting.append(one)
    return EventWaits(np.array(awaited, np.int64), np.array(waiting, np.int64))
