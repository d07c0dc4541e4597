"""Launch to kernel: GPU work starts no earlier than its launch arrives at the stream."""

from __future__ import annotations

import numpy as np

from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.draft import GraphDraft

_PAUSE_US = 10.0
"""A longer pause, in µs, between two pieces of work means that the stream waited."""


def launches(draft: GraphDraft, latency_us: float) -> Dependencies:
    """Dependencies from the start of the call, because a kernel may run before its call has returned.

    All launches share one latency.
    """
    work = np.flatnonzero(draft.launch >= 0)
    call = draft.launch[work]
    return Dependencies.columns(call, work + draft.first_work, Cause.LAUNCH, latency_us, from_start=True)


def backlog(draft: GraphDraft, origin: int, constants: LaunchConstants) -> Dependencies:
    """Dependencies of work that was launched before the recording and found its stream idle.

    Such work keeps its recorded start, since nothing in the recording starts it. Without a pause of the stream, the
    stream's order is sufficient. ``origin`` is the number of the point from which the time counts.
    """
    lane = draft.work.lane
    follows = np.append(False, lane[1:] == lane[:-1])[: len(lane)]
    free = np.where(follows, np.append(-np.inf, draft.work.end_us[:-1])[: len(lane)], -np.inf)
    paused = draft.work.start_us - free > constants.turnaround_us + _PAUSE_US
    work = np.flatnonzero((draft.launch < 0) & paused) + draft.first_work
    lag = draft.start_us[work] - draft.start_us[origin]
    return Dependencies.columns(
        np.full(len(work), origin), work, Cause.LAUNCH, np.maximum(lag, 0.0), from_start=True
    )
