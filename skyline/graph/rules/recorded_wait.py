"""Cross-stream waits recorded in the trace: recent profilers record them on request."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.rules.calls import GpuWork
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

WAIT_EVENT = "Wait Event"


def recorded_waits(trace: ProfilerTrace, work: GpuWork) -> tuple[Indices, Indices, Flags]:
    """Pairs of awaited and waiting work, and for each row whether it is a call with a recorded wait.

    A stream that waits for an event waits for the last work launched on the awaited stream before the call that
    recorded the event. The waiting work is the first one launched on the waiting stream after the wait call. There
    is no pair if the awaited stream had no work yet.
    """
    told = np.zeros(len(trace), np.bool_)
    of_call = {
        int(trace.correlation[row]): row
        for row in trace.of(Category.RUNTIME, Category.DRIVER).tolist()
        if trace.correlation[row]
    }
    called = np.where(work.call >= 0, trace.start_us[work.call], -np.inf)
    awaited: list[int] = []
    waiting: list[int] = []
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
