"""Cross-stream waits: a stream continues when an event recorded on another stream has completed."""

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
    """Pairs of indices into the GPU work."""

    awaited: Indices
    waiting: Indices

    def __len__(self) -> int:
        return len(self.awaited)

    def dependencies(self, first_work: int) -> Dependencies:
        """The pairs as dependencies, with GPU work numbered from ``first_work``."""
        return Dependencies.columns(self.awaited + first_work, self.waiting + first_work, Cause.EVENT)


def event_waits(trace: ProfilerTrace, names: Names, work: GpuWork, constants: LaunchConstants) -> EventWaits:
    """Pairs of the awaited work and the next work of the waiting stream.

    The rule uses the streams and events that the trace names. Without names, ``stream_waits`` infers the pairs.
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
