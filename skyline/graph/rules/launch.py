"""Launch to kernel: GPU work starts no earlier than its launch arrives at the stream."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Indices, Times
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.event_wait import EventWaits
from skyline.graph.rules.names import launches_graph
from skyline.graph.rules.pieces import Pieces
from skyline.graph.rules.recorded_tasks import RecordedTasks
from skyline.graph.rules.synchronisation import NO_WAITING, SynchronisationWaits
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_PAUSE_US = 10.0
"""A longer pause, in µs, between two pieces of work means that the stream waited."""


def launches(recorded: RecordedTasks, latency_us: float) -> Dependencies:
    """Dependencies from the start of the call, because a kernel may run before its call has returned.

    All launches share one latency.
    """
    work = np.flatnonzero(recorded.launch >= 0)
    call = recorded.launch[work]
    return Dependencies.columns(call, work + recorded.first_work, Cause.LAUNCH, latency_us, from_start=True)


def backlog(recorded: RecordedTasks, origin: int, constants: LaunchConstants) -> Dependencies:
    """Dependencies of work that was launched before the recording and found its stream idle.

    Such work keeps its recorded start, since nothing in the recording starts it. Without a pause of the stream, the
    stream's order is sufficient. ``origin`` is the number of the point from which the time counts.
    """
    paused = recorded.work.start_us - recorded.work.free_us > constants.turnaround_us + _PAUSE_US
    work = np.flatnonzero((recorded.launch < 0) & paused) + recorded.first_work
    lag = recorded.start_us[work] - recorded.start_us[origin]
    return Dependencies.columns(
        np.full(len(work), origin), work, Cause.LAUNCH, np.maximum(lag, 0.0), from_start=True
    )


QUEUE_DEPTH = 1022
"""Launches in a stream before the next launch waits, as V100 and RTX 3060 Ti traces of CUDA 11 and 12 show. Of
1024 entries, the driver uses two."""
_ROUNDING_US = 5.0


def launch_queue(recorded: RecordedTasks, depth: int = QUEUE_DEPTH) -> SynchronisationWaits:
    """Launch n of a stream waits until the last work of its launch n - depth has ended.

    Launches from before the recording count too: their work is first in the stream. A launch of a whole graph
    counts once. If a launch in the trace returned before it had space by this rule, the rule is not applied there.
    """
    pieces: list[Ids] = []
    sources: list[Ids] = []
    bounds = np.append(
        np.flatnonzero(np.append(True, recorded.work.lane[1:] != recorded.work.lane[:-1])), len(recorded.work)
    )
    for begin, behind in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        call = recorded.work.call[begin:behind]
        # The last work of each launch; work without a recorded launch is a launch of its own.
        last = np.flatnonzero(np.append((call[1:] != call[:-1]) | (call[1:] < 0), True)) + begin
        if len(last) <= depth:
            continue
        launch = recorded.launch[last[depth:]]
        source = (last[:-depth] + recorded.first_work).astype(np.int32)
        holds = launch >= 0
        holds[holds] = recorded.end_us[source[holds]] <= recorded.end_us[launch[holds]] + _ROUNDING_US
        pieces.append(launch[holds].astype(np.int32))
        sources.append(source[holds])
    if not pieces:
        return NO_WAITING
    piece, source = np.concatenate(pieces), np.concatenate(sources)
    until = np.minimum(np.maximum(recorded.start_us[piece], recorded.end_us[source]), recorded.end_us[piece])
    return SynchronisationWaits(piece, until, Dependencies.columns(source, piece, Cause.QUEUE))


_NEGLIGIBLE_US = 15.0


def with_unrecorded(
    trace: ProfilerTrace, work: GpuWork, constants: LaunchConstants, explained: Indices
) -> tuple[GpuWork, int]:
    """Fill each pause of a running graph with a piece of work; also return the number of pieces.

    A launched graph needs nothing more from the host. If its stream pauses before a node, the GPU ran another
    node, which older profilers often omit, or a branch of the graph on another stream. In both cases the pause is
    GPU time. ``explained`` are the places whose pause is explained by a wait for another stream.
    """
    if not len(work):
        return work, 0
    graph = np.array([launches_graph(text) for text in trace.strings])
    by_graph = work.call >= 0
    by_graph[by_graph] = graph[trace.name[work.call[by_graph]]]
    follows = np.append(False, work.lane[1:] == work.lane[:-1])
    called = np.where(work.call >= 0, trace.start_us[work.call], 0.0)
    free = np.where(follows, np.append(0.0, work.end_us[:-1]), 0.0) + constants.turnaround_us
    ready = np.maximum(called + constants.launch_latency_us, free)
    late = np.flatnonzero(by_graph & (work.start_us - ready > _NEGLIGIBLE_US))
    late = late[~np.isin(late, explained)]
    at = np.concatenate([np.arange(len(work)), late - 0.5])
    order = np.argsort(at, kind="stable")
    call = work.call[late]
    return (
        GpuWork(
            np.concatenate([work.event, call])[order],
            np.concatenate([work.call, call])[order],
            np.concatenate([work.lane, work.lane[late]])[order],
            np.concatenate([work.start_us, ready[late]])[order],
            np.concatenate([work.end_us, work.start_us[late] - constants.turnaround_us])[order],
        ),
        len(late),
    )


_NOTICEABLE_US = 50.0


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
    late = np.flatnonzero((work.start_us - ready > _NOTICEABLE_US) & kernel)
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
