"""The relevant host threads, and the one that runs the script."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids
from skyline.graph.rules.names import Names
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace


@dataclass(frozen=True, slots=True)
class HostThreads:
    """Rows of ``ProfilerTrace.threads``: the script's thread, and all relevant threads including it."""

    main: int
    taking_part: tuple[int, ...]
    autograd: tuple[int, ...]
    """Threads on which autograd's engine runs the backward pass."""
    watching: int
    """Number of omitted threads that only query the GPU's progress, such as the watchdog of a communicator."""


def host_threads(trace: ProfilerTrace, names: Names) -> HostThreads:
    """The script's thread is the one with the marked steps.

    Without marked steps, it is the thread with the most recorded time in annotations and operators, excluding
    operators started by autograd's engine.
    """
    count = max(1, len(trace.threads))
    hosted = trace.thread >= 0
    call = np.isin(trace.category, (Category.RUNTIME, Category.DRIVER))
    operator = hosted & (trace.category == Category.CPU_OP)
    working = np.bincount(trace.thread[hosted & (operator | (call & ~names.query))], minlength=count) > 0
    backward = operator & names.backward
    share = np.bincount(trace.thread[backward], minlength=count)
    spans = operator | (hosted & (trace.category == Category.ANNOTATION))
    weight = np.bincount(
        trace.thread[spans & ~backward], trace.duration_us[spans & ~backward], minlength=count
    )
    for row in trace.steps.event.tolist():
        if trace.thread[row] >= 0:
            weight[trace.thread[row]] += trace.duration_total_us * 1e3
    main = int(np.argmax(weight))
    working[main] = True
    taking: Ids = np.flatnonzero(working).astype(np.int32)
    return HostThreads(
        main,
        tuple(taking.tolist()),
        tuple(one for one in taking.tolist() if one != main and share[one]),
        int(np.count_nonzero((np.bincount(trace.thread[hosted], minlength=count) > 0) & ~working)),
    )
