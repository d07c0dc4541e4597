"""Cross-stream waits: a stream continues when an event recorded on another stream has completed."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.names import Names
from skyline.graph.rules.stream_wait import StreamWork, stream_waits
from skyline.lazy_dataclass import dataclass
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
    caller = np.where(known, trace.thread[work.call], -1)
    streams = StreamWork(work.lane, work.start_us, work.end_us, work.called_us(trace), caller)
    source, target = stream_waits(streams, trace.start_us[calls], trace.thread[calls], constants)
    pairs = np.unique(
        np.stack([np.concatenate([named_source, source]), np.concatenate([named_target, target])]), axis=1
    )
    return EventWaits(pairs[0], pairs[1])


NO_WAITS = EventWaits(np.empty(0, np.int64), np.empty(0, np.int64))


WAIT_EVENT = "Wait Event"


def recorded_waits(trace: ProfilerTrace, work: GpuWork) -> tuple[Indices, Indices, Flags]:
    """Pairs of awaited and waiting work, and for each row whether it is a call with a recorded wait.

    A stream that waits for an event waits for the last work launched on the awaited stream before the call that
    recorded the event. The waiting work is the first one launched on the waiting stream after the wait call. There
    is no pair if the awaited stream had no work yet.
    """
    told = np.zeros(len(trace), np.bool_)
    awaited: list[int] = []
    waiting: list[int] = []
    calls = trace.of(Category.RUNTIME, Category.DRIVER) if len(trace.waits) else np.empty(0, np.intp)
    calls = calls[trace.correlation[calls] != 0]
    of_call = dict(zip(trace.correlation[calls].tolist(), calls.tolist(), strict=True))
    called = np.where(work.call >= 0, trace.start_us[work.call], -np.inf)
    for place, event in enumerate(trace.waits.event.tolist()):
        call = of_call.get(int(trace.correlation[event]))
        if call is None or WAIT_EVENT not in trace.name_of(event):
            continue
        told[call] = True
        recorded = of_call.get(int(trace.waits.recorded_by[place]))
        source = _on(trace, work, event, int(trace.waits.stream[place]))
        target = _on(trace, work, event, int(trace.stream[event]))
        until = trace.start_us[call if recorded is None else recorded]
        source = source[called[source] < until]
        target = target[called[target] > trace.start_us[call]]
        if len(source) and len(target):
            awaited.append(int(source[-1]))
            waiting.append(int(target[0]))
    return np.array(awaited, np.int64), np.array(waiting, np.int64), told


def _on(trace: ProfilerTrace, work: GpuWork, event: int, stream: int) -> Indices:
    """Indices of the stream's work on the event's device, in order."""
    on_stream = trace.stream[work.event] == stream
    return np.flatnonzero(on_stream & (trace.device[work.event] == trace.device[event]))
