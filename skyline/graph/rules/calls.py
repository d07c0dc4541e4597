"""Runtime calls and the GPU work that each of them started."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Ids, Times
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import GPU_WORK, Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace


@dataclass(frozen=True, slots=True, eq=False)
class GpuWork:
    """Work on streams, sorted by device, stream and start."""

    event: Ids
    """Row of the trace."""
    call: Ids
    """Row of the launching call; -1 for a launch before the recording began."""
    lane: Ids
    """Number of the stream, counted over all devices."""
    start_us: Times
    end_us: Times

    def __len__(self) -> int:
        return len(self.event)

    @property
    def follows(self) -> Flags:
        """True for work that is not the first on its stream."""
        return np.append(False, self.lane[1:] == self.lane[:-1])[: len(self)]

    @property
    def free_us(self) -> Times:
        """The end of the previous work on the stream; minus infinity for the first."""
        return np.where(self.follows, np.append(-np.inf, self.end_us[:-1])[: len(self)], -np.inf)

    def called_us(self, trace: ProfilerTrace) -> Times:
        """The start of the launching call; infinite if it was not recorded."""
        return np.where(self.call >= 0, trace.start_us[self.call], np.inf)


def gpu_work(trace: ProfilerTrace) -> GpuWork:
    """Join work and calls by correlation number; flow arrows also exist for calls without work.

    One call may start many pieces of work (a CUDA graph, a batch of copies). If several calls share a correlation
    number (a runtime call and the driver call inside it), the outermost one counts.
    """
    rows = trace.of(*GPU_WORK)
    stream, device = trace.stream[rows], trace.device[rows]
    order = np.lexsort((-trace.duration_us[rows], trace.start_us[rows], stream, device))
    rows, stream, device = rows[order], stream[order], device[order]
    lane = np.zeros(len(rows), np.int32)
    if len(rows):
        lane[1:] = np.cumsum((stream[1:] != stream[:-1]) | (device[1:] != device[:-1]))
    calls = trace.of(Category.RUNTIME, Category.DRIVER)
    calls = calls[trace.correlation[calls] != 0]
    calls = calls[np.argsort(trace.correlation[calls], kind="stable")]
    call = np.full(len(rows), -1, np.int32)
    if len(calls) and len(rows):
        wanted = trace.correlation[rows]
        known = trace.correlation[calls]
        place = np.minimum(np.searchsorted(known, wanted), len(calls) - 1)
        found = (
            (known[place] == wanted) & (wanted != 0) & (trace.start_us[calls[place]] <= trace.start_us[rows])
        )
        call[found] = calls[place[found]]
    start = trace.start_us[rows]
    return GpuWork(rows.astype(np.int32), call, lane, start, start + trace.duration_us[rows])


def launching(trace: ProfilerTrace, work: GpuWork) -> Flags:
    """For each row of the trace whether it is a call that started GPU work."""
    found = np.zeros(len(trace), np.bool_)
    found[work.call[work.call >= 0]] = True
    return found
