"""Launch to kernel: GPU work starts no earlier than its launch reaches the stream."""

from __future__ import annotations

import numpy as np

from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.draft import GraphDraft

_PAUSE_US = 10.0
"""A longer pause between two pieces of work means that the stream waited for something."""


def launches(draft: GraphDraft, latency_us: float) -> Dependencies:
    """From the start of the call, because a kernel may run before its call has returned.

    The latency is one for the whole trace.
    """
    work = np.flatnonzero(draft.launch >= 0)
    call = draft.launch[work]
    return Dependencies.columns(call, work + draft.first_work, Cause.LAUNCH, latency_us, from_start=True)


def backlog(draft: GraphDraft, origin: int, constants: LaunchConstants) -> Dependencies:
    """Work launched before the recording began: where its stream paused before it, it starts when it started.

    Nothing recorded brings it about. Where the stream did not pause, the stream's order is enough. ``origin``
    is the number of a point from which the time is counted.
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
