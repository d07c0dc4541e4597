"""Cross-stream waits: a stream goes on when an event that was recorded on another stream has passed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.names import Names
from skyline.graph.rules.recorded_wait import recorded_waits
from skyline.graph.rules.stream_wait import StreamWork, stream_waits
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace


@dataclass(frozen=True, slots=True, eq=False)
class EventWaits:
    """Pairs of places in the GPU's work."""

    awaited: Indices
    waiting: Indices

    def __len__(self) -> int:
        return len(self.awaited)

    def dependencies(self, first_work: int) -> Dependencies:
        """The same, where the GPU's work is numbered from ``first_work`` on."""
        return Dependencies.columns(self.awaited + first_work, self.waiting + first_work, Cause.EVENT)


def event_waits(trace: ProfilerTrace, names: Names, work: GpuWork, constants: LaunchConstants) -> EventWaits:
    """From the awaited work to the next work of the stream that waits for it.

    Where the trace names streams and events, that is taken; where it does not, ``stream_waits`` tells.
    """
    known = work.call >= 0
    if not known.any() or not work.lane[-1]:
        return NO_WAITS
    named_source, named_target, named = recorded_waits(trace, work)
    calls = np.flatnonzero(
        names.wait_event & ~named & np.isin(trace.category, (Category.RUNTIME, Category.DRIVER))
    )
    called = np.where(known, trace.start_us[work.call], np.inf)
    caller = np.where(known, trace.thread[work.call], -1)
    streams = StreamWork(work.lane, work.start_us, work.end_us, called, caller)
    source, target = stream_waits(streams, trace.start_us[calls], trace.thread[calls], constants)
    pairs = np.unique(
        np.stack([np.concatenate([named_source, source]), np.concatenate([named_target, target])]), axis=1
    )
    return EventWaits(pairs[0], pairs[1])


NO_WAITS = EventWaits(np.empty(0, np.int64), np.empty(0, np.int64))
