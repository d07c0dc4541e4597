"""Python functions that a profiler recorded, by file, and the innermost function around an event."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_FRAME = re.compile(r"(?P<file>[^<].*\.py)\(\d+\): .+")
_LIBRARIES = ("site-packages", "dist-packages", "lib/python")
_LIBRARY_PACKAGES = sys.stdlib_module_names | {"torch", "torchvision", "torchaudio", "numpy"}


def frames(trace: ProfilerTrace, wanted: Callable[[str], bool]) -> Indices:
    """Rows of the functions whose file is ``wanted``. C functions have no file."""
    python = trace.category == Category.PYTHON
    names: list[int] = np.unique(trace.name[python]).tolist()
    chosen: Flags = np.zeros(len(trace.strings), np.bool_)
    for name in names:
        found = _FRAME.fullmatch(trace.strings[name])
        chosen[name] = found is not None and wanted(found["file"].replace("\\", "/"))
    return np.flatnonzero(python & chosen[trace.name])


def file_of(name: str) -> str:
    """The file of a recorded function's name, with forward slashes."""
    found = _FRAME.fullmatch(name)
    return found["file"].replace("\\", "/") if found is not None else ""


def in_library(file: str) -> bool:
    """True for files of Python, PyTorch and installed packages."""
    package = file.split("/", 1)[0].removesuffix(".py")
    return package in _LIBRARY_PACKAGES or any(mark in file for mark in _LIBRARIES)


def innermost(trace: ProfilerTrace, ranges: Indices, rows: Indices) -> Indices:
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
