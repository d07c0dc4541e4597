"""The function of the user's code that caused each task of a recording, if Python functions were recorded."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Indices
from skyline.graph.python_frames import frames, in_library, innermost
from skyline.graph.tasks import PHASE
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.phase import Phase
from skyline.whatif.recording import Recording


def functions(recording: Recording, row_of_task: Indices) -> tuple[tuple[str, ...], Ids]:
    """A table of functions, and for each task its row in the table; -1 if unknown.

    ``row_of_task`` is the event of each task's operator, or -1. The function is the innermost one around the operator
    that belongs neither to Python nor to PyTorch. For backward work, the forward operator with the same sequence
    number counts. The profiler names functions by the line of their definition.
    """
    trace = recording.trace
    rows = frames(trace, lambda file: not in_library(file))
    forward = row_of_task.copy()
    behind = np.flatnonzero((recording.graph.tasks.phase == PHASE[Phase.BACKWARD]) & (row_of_task >= 0))
    forward[behind] = _forward(trace, row_of_task[behind])
    asked = np.unique(forward[forward >= 0])
    frame = innermost(trace, rows, asked)
    used, place = np.unique(trace.name[frame[frame >= 0]], return_inverse=True)
    names: list[int] = used.tolist()
    table = np.full(len(asked), -1, np.int32)
    table[frame >= 0] = place
    of_task = np.full(len(row_of_task), -1, np.int32)
    known = forward >= 0
    of_task[known] = table[np.searchsorted(asked, forward[known])]
    return tuple(trace.strings[name] for name in names), of_task


def _forward(trace: ProfilerTrace, rows: Indices) -> Indices:
    """For backward operators the forward operator with the same sequence number, or -1."""
    numbered = np.flatnonzero(
        (trace.category == Category.CPU_OP) & (trace.sequence >= 0) & (trace.forward_thread == 0)
    )
    numbered = numbered[np.argsort(trace.sequence[numbered], kind="stable")]
    wanted = trace.sequence[rows]
    place = np.searchsorted(trace.sequence[numbered], wanted, side="right") - 1
    found = (place >= 0) & (wanted >= 0)
    found[found] = trace.sequence[numbered[place[found]]] == wanted[found]
    forward = np.full(len(rows), -1, np.int64)
    forward[found] = numbered[place[found]]
    # Old traces number backward operators in the same way: those have no forward operator.
    forward[forward == rows] = -1
    return forward
