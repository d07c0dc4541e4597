"""Launch to kernel: GPU work starts no earlier than its launch reaches the stream."""

from __future__ import annotations

import numpy as np

from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.draft import Draft


def launches(draft: Draft, latency_us: float) -> Dependencies:
    """From the start of the call, because a kernel may run before its call has returned.

    The latency is that of the trace as a whole, except where the recorded work was quicker than that.
    """
    work = np.flatnonzero(draft.launch >= 0)
    call = draft.launch[work]
    return Dependencies.columns(
        call, work + draft.first_work, Cause.LAUNCH, latency_us, from_start=True
    )


def backlog(draft: Draft, origin: int) -> Dependencies:
    """Work launched before the recording began starts when it started: nothing recorded brings it about.

    ``origin`` is the number of a point from which that time is counted.
    """
    work = np.flatnonzero(draft.launch < 0) + draft.first_work
    lag = draft.start_us[work] - draft.start_us[origin]
    return Dependencies.columns(
        np.full(len(work), origin), work, Cause.LAUNCH, np.maximum(lag, 0.0), from_start=True
    )
