"""The two times that a whole trace shares: how long a launch takes to arrive, a stream to turn round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Times
from skyline.graph.rules.calls import GpuWork
from skyline.trace.kineto.profiler_trace import ProfilerTrace

USUAL_LATENCY_US = 7.0
"""Of V100, A100 and H100; for traces in which no stream was ever idle, where it makes no difference either."""


@dataclass(frozen=True, slots=True)
class LaunchConstants:
    """Both in µs, one each for the whole trace, so that no error of replay can hide in them."""

    launch_latency_us: float
    """From the start of a launch call to the start of its work, on a stream that has nothing else to do."""
    turnaround_us: float
    """From the end of one piece of work to the start of the next on a stream that has it waiting."""


def constants_of(trace: ProfilerTrace, work: GpuWork) -> LaunchConstants:
    """Means of the middle halves: clocks of whole microseconds make a median jump by a fifth of a latency."""
    start, end = work.start_us, work.end_us
    launched = work.call >= 0
    called = np.where(launched, trace.start_us[work.call], np.inf)
    follows = np.append(False, work.lane[1:] == work.lane[:-1])[: len(work)]
    free = np.where(follows, np.append(-np.inf, end[:-1])[: len(work)], -np.inf)
    at_once = launched & (free <= called)
    latency = _middle((start - called)[at_once]) if at_once.any() else USUAL_LATENCY_US
    waiting = launched & follows & (called + 2 * latency <= free)
    pause = (start - free)[waiting]
    turnaround = _middle(np.maximum(pause, 0.0))
    return LaunchConstants(latency, turnaround)


def _middle(values: Times) -> float:
    """Mean of the middle half; 0 for nothing."""
    if not len(values):
        return 0.0
    ordered = np.sort(values)
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())
