"""The begin and end of the training steps in a trace."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.rules.names import Names
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import MarkedSteps, ProfilerTrace

_FEWEST = 3


def steps_of(trace: ProfilerTrace, names: Names, main: int) -> MarkedSteps:
    """The steps that the script marked; else the periods between batch fetches or optimizer steps.

    Without marks, a step lasts from one fetch of a batch to the next, or from the end of one optimizer step to the
    end of the next. Work before the first and after the last step belongs to no step.
    """
    if len(trace.steps):
        return trace.steps
    ranges = (trace.thread == main) & (trace.category <= Category.CPU_OP)
    fetches = _outermost(trace, np.flatnonzero(ranges & names.loader))
    if len(fetches) >= _FEWEST:
        return _between(fetches, trace.start_us[fetches])
    done = _outermost(trace, np.flatnonzero(ranges & names.optimizer_step))
    if len(done) >= _FEWEST:
        return _between(done, trace.end_us[done])
    return _between(done[:0], np.empty(0))


def _outermost(trace: ProfilerTrace, rows: Indices) -> Indices:
    if not len(rows):
        return rows
    reached = np.maximum.accumulate(trace.end_us[rows])
    return rows[np.append(True, trace.start_us[rows[1:]] >= reached[:-1])]


def _between(rows: Indices, time_us: np.ndarray[tuple[int], np.dtype[np.float64]]) -> MarkedSteps:
    count = max(0, len(rows) - 1)
    return MarkedSteps(
        np.arange(count, dtype=np.int64), time_us[:count], time_us[1:], rows[:count].astype(np.int32)
    )
