"""Two times shared by the whole trace: the latency of a launch and the turnaround of a stream."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Times
from skyline.graph.rules.calls import GpuWork
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.profiler_trace import ProfilerTrace

USUAL_LATENCY_US = 7.0
"""Latency on V100, A100 and H100. It serves traces in which no stream was ever idle, where it has no effect."""


@dataclass(frozen=True, slots=True)
class LaunchConstants:
    """Both in µs. One value each for the whole trace, so that they cannot hide errors of a replay."""

    launch_latency_us: float
    """Time from the start of a launch call to the start of its work on an idle stream."""
    turnaround_us: float
    """Time from the end of one piece of work to the start of the next, already queued one on a stream."""


def constants_of(trace: ProfilerTrace, work: GpuWork) -> LaunchConstants:
    """Means of the middle halves: with clocks of whole microseconds, a median jumps by a fifth of a latency."""
    start = work.start_us
    launched = work.call >= 0
    called, free = work.called_us(trace), work.free_us
    at_once = launched & (free <= called)
    latency = _middle((start - called)[at_once]) if at_once.any() else USUAL_LATENCY_US
    waiting = launched & work.follows & (called + 2 * latency <= free)
    pause = (start - free)[waiting]
    turnaround = _middle(np.maximum(pause, 0.0))
    return LaunchConstants(latency, turnaround)


def _middle(values: Times) -> float:
    """Mean of the middle half; 0 for no values."""
    if not len(values):
        return 0.0
    ordered = np.sort(values)
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())
