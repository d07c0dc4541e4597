"""The function of the user's code that caused each task of a recording, if Python functions were recorded."""

from __future__ import annotations

import re
import sys

import numpy as np

from skyline.graph.column import Flags, Ids, Indices
from skyline.graph.tasks import PHASE
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.phase import Phase
from skyline.whatif.recording import Recording

_FRAME = re.compile(r"(?P<file>[^<].*\.py)\(\d+\): .+")
_LIBRARIES = ("site-packages", "dist-packages", "lib/python")
_LIBRARY_PACKAGES = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy"}


def functions(recording: Recording, row_of_task: Indices) -> tuple[tuple[str, ...], Ids]:
    """A table of functions, and for each task its row in the table; -1 if unknown.

    ``row_of_task`` is the event of each task's operator, or -1. The function is the innermost one around the operator
    that belongs neither to Python nor to PyTorch. For backward work, the forward operator with the same sequence
    number counts. The profiler names functions by the line of their definition.
    """
    trace = recording.trace
    rows = np.flatnonzero(_own(trace))
    forward = row_of_task.copy()
    behind = np.flatnonzero((recording.graph.tasks.phase == PHASE[Phase.BACKWARD]) & (row_of_task >= 0))
    forward[behind] = _forward(trace, row_of_task[behind])
    asked = np.unique(forward[forward >= 0])
    frame = _innermost(trace, rows, asked)
    used, place = np.unique(trace.name[frame[frame >= 0]], return_inverse=True)
    names: list[int] = used.tolist()
    table = np.full(len(asked), -1, np.int32)
    table[frame >= 0] = place
    of_task = np.full(len(row_of_task), -1, np.int32)
    known = forward >= 0
    of_task[known] = table[np.searchsorted(asked, forward[known])]
    return tuple(trace.strings[name] for name in names), of_task


def _own(trace: ProfilerTrace) -> Flags:
    """Rows of Python functions of the user's code, or of libraries that are indistinguishable from it."""
    python = trace.category == Category.PYTHON
    names: list[int] = np.unique(trace.name[python]).tolist()
    own = np.zeros(len(trace.strings), np.bool_)
    for name in names:
        found = _FRAME.fullmatch(trace.strings[name])
        own[name] = found is not None and not _in_library(found["file"].replace("\\", "/"))
    return python & own[trace.name]


def _in_library(file: str) -> bool:
    package = file.split("/", 1)[0].removesuffix(".py")
    return package in _LIBRARY_PACKAGES or any(mark in file for mark in _LIBRARIES)


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


def _innermost(trace: ProfilerTrace, ranges: Indices, rows: Indices) -> Indices:
    """For each row the innermost range of its own thread in which it begins; -1 for none."""
    marks = np.concatenate([ranges, rows])
    place = np.concatenate([np.full(len(ranges), -1), np.arange(len(rows))])
    order = np.lexsort((place >= 0, trace.start_us[marks], trace.thread[marks]))
    found = np.full(len(rows), -1, np.int64)
    last = -2
    held: list[tuple[float, int]] = []
    threads, starts, ends = (
        trace.thread[marks[order]],
        trace.start_us[marks[order]],
        trace.end_us[marks[order]],
    )
    whole = zip(
        marks[order].tolist(),
        place[order].tolist(),
        threads.tolist(),
        starts.tolist(),
        ends.tolist(),
        strict=True,
    )
    for row, asked, thread, begin, end in whole:
        if thread != last:
            held, last = [], thread
        while held and held[-1][0] <= begin:
            held.pop()
        if asked >= 0:
            found[asked] = held[-1][1] if held else -1
        else:
            held.append((end, row))
    return found
