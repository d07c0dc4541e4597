"""A full GPU: a kernel waits for space while a kernel on another stream occupies all of it."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.event_wait import EventWaits
from skyline.graph.rules.pieces import Pieces
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_NEGLIGIBLE_US = 50.0


def occupied(
    trace: ProfilerTrace, work: GpuWork, constants: LaunchConstants, explained: Indices
) -> EventWaits:
    """Pairs of a kernel that filled the GPU and a delayed kernel on another stream.

    A GPU assigns blocks in launch order. The first block of a later kernel therefore starts when the last blocks of
    the earlier kernel leave space. The rule applies under three conditions: nothing else explains the delay
    (``explained`` are the explained places); another stream ran a kernel at that time or shortly before; and waiting
    for the end of that kernel is closer to the measured start than not waiting.
    """
    ready = np.maximum(
        work.called_us(trace) + constants.launch_latency_us, work.free_us + constants.turnaround_us
    )
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


def gaps_of(pieces: Pieces, idle_after: Indices) -> Times:
    """For each piece the time, in µs, to the next one of its thread; 0 if the thread waits after the piece."""
    gap = np.zeros(len(pieces))
    if len(pieces):
        same = pieces.thread[1:] == pieces.thread[:-1]
        gap[:-1][same] = np.maximum(pieces.start_us[1:] - pieces.end_us[:-1], 0.0)[same]
    gap[idle_after] = 0.0
    return gap
