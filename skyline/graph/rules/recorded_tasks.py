"""The tasks of a trace before the rules: pieces of host threads and work of streams in one numbering."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Times
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.names import Names
from skyline.graph.rules.pieces import Pieces
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.profiler_trace import ProfilerTrace


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTasks:
    """The pieces, followed by the GPU work, numbered consecutively; times as measured.

    Rules read them and return dependencies between these numbers. No rule changes them.
    """

    trace: ProfilerTrace
    names: Names
    pieces: Pieces
    work: GpuWork
    start_us: Times
    end_us: Times
    launch: Ids
    """For each GPU work the number of the piece that launched it; -1 if not recorded."""

    @property
    def first_work(self) -> int:
        """The number of the first GPU work."""
        return len(self.pieces)


def recorded_tasks(trace: ProfilerTrace, names: Names, pieces: Pieces, work: GpuWork) -> RecordedTasks:
    """The recorded tasks. Calls inside other calls are assigned to the outer calls."""
    start = np.concatenate([pieces.start_us, work.start_us])
    end = np.concatenate([pieces.end_us, work.end_us])
    return RecordedTasks(trace, names, pieces, work, start, end, _launching(trace, pieces, work))


def _launching(trace: ProfilerTrace, pieces: Pieces, work: GpuWork) -> Ids:
    launch = np.full(len(work), -1, np.int32)
    # The first piece of an event: a split call launches with its first part.
    piece_of = np.full(len(trace), -1, np.int32)
    piece_of[pieces.event[::-1]] = np.arange(len(pieces), dtype=np.int32)[::-1]
    known = np.flatnonzero(work.call >= 0)
    launch[known] = piece_of[work.call[known]]
    # The remaining calls are inside other calls.
    inner: list[int] = known[launch[known] < 0].tolist()
    for one in inner:
        call = int(work.call[one])
        mine = pieces.on(int(trace.thread[call]))
        at = int(np.searchsorted(pieces.start_us[mine], float(trace.start_us[call]), side="right")) - 1
        if at >= 0:
            launch[one] = mine[at]
    return launch
