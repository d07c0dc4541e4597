"""CUDA graphs: one call starts many pieces of work, and the profiler does not record all of them."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.names import launches_graph
from skyline.trace.kineto.profiler_trace import ProfilerTrace

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
