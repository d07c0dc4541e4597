"""The line of the user's code that called each piece, if the trace recorded call stacks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Ids
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.record import CodeLine

_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<frozen", "<built-in", "torch/", "\\lib\\")


@dataclass(frozen=True, slots=True, eq=False)
class LineTable:
    """A table of lines, and for each piece the innermost and the outermost line of the user's code."""

    lines: tuple[CodeLine, ...]
    line: Ids
    call_line: Ids


def lines_of(trace: ProfilerTrace, forward: Ids) -> LineTable:
    """``forward`` is the row of the operator whose call stack applies, for each piece (-1: none)."""
    line, call_line = np.full(len(forward), -1, np.int32), np.full(len(forward), -1, np.int32)
    known = np.flatnonzero(forward >= 0)
    stacks = trace.stack[forward[known]]
    table: dict[CodeLine, int] = {}
    deepest = np.full(len(trace.strings), -1, np.int32)
    outermost = deepest.copy()
    used: list[int] = np.unique(stacks).tolist()
    for stack in used:
        own = [found for frame in trace.strings[stack].split(";") if (found := _own(frame)) is not None]
        if own:
            deepest[stack] = table.setdefault(own[0], len(table))
            outermost[stack] = table.setdefault(own[-1], len(table))
    line[known], call_line[known] = deepest[stacks], outermost[stacks]
    return LineTable(tuple(table), line, call_line)


def _own(frame: str) -> CodeLine | None:
    found = _FRAME.fullmatch(frame.strip())
    if found is None or any(mark in found["file"] for mark in _LIBRARIES):
        return None
    return CodeLine(found["file"], int(found["line"]), found["function"])
