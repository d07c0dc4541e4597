"""Which host threads count, and which of them the script runs on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Ids
from skyline.graph.rules.names import Names
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace


@dataclass(frozen=True, slots=True)
class HostThreads:
    """Rows of ``ProfilerTrace.threads``: the script's own, and all that take part, that one among them."""

    main: int
    taking_part: tuple[int, ...]
    autograd: tuple[int, ...]
    """Those that autograd's engine runs the backward pass on."""
    watching: int
    """How many were left out: they only ask how far the GPU is, like the watchdog of a communicator."""


def host_threads(trace: ProfilerTrace, names: Names) -> HostThreads:
    """The script's thread is the one with the steps.

    Where none are marked it is the one with most recorded time in annotations and operators that autograd's
    engine did not start.
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
