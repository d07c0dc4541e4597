"""The module of the model that each piece computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Flags, Ids, Indices
from skyline.graph.rules.names import Names
from skyline.graph.rules.pieces import Pieces
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_MODULE = "nn.Module: "


@dataclass(frozen=True, slots=True, eq=False)
class ModuleLayers:
    """A table of dotted module paths, outermost first, and for each piece its row in the table (-1: none)."""

    names: tuple[str, ...]
    module: Ids


def layers_of(trace: ProfilerTrace, names: Names, pieces: Pieces, forward: Ids) -> ModuleLayers:
    """The module of each piece: from the profiler's module paths, else the Python stack, else annotations.

    ``forward`` is the trace row of the forward operator of each piece (-1: none). For backward work this is the
    operator with the same sequence number.
    """
    table: dict[str, int] = {}
    module = np.full(len(pieces), -1, np.int32)
    known = forward >= 0
    rows = np.unique(forward[known])
    if not len(rows):
        return ModuleLayers((), module)
    of_row = np.full(len(trace), -1, np.int32)
    written = rows[trace.module_path[rows] != 0]
    for row in written.tolist():
        of_row[row] = table.setdefault(trace.strings[trace.module_path[row]], len(table))
    if not len(written):
        modules = (trace.category == Category.PYTHON) & (trace.python_module >= 0)
        if modules.any():
            _innermost(trace, np.flatnonzero(modules), rows, of_row, table)
        else:
            plain = (trace.category == Category.ANNOTATION) & ~names.context & ~names.loader
            named = plain | ((trace.category == Category.ANNOTATION) & names.marked)
            _innermost(trace, np.flatnonzero(named), rows, of_row, table)
    module[known] = of_row[forward[known]]
    return ModuleLayers(tuple(table), module)


def forward_rows(trace: ProfilerTrace, pieces: Pieces, backward: Flags) -> Ids:
    """For each piece the row of the operator that determines its layer and line; -1 if unknown.

    Autograd gives a forward operator and its backward operators the same sequence number.
    """
    forward = pieces.operator.copy()
    forward[backward] = -1
    behind = np.flatnonzero(backward & (pieces.operator >= 0))
    numbered: Indices = np.flatnonzero(
        (trace.category == Category.CPU_OP) & (trace.sequence >= 0) & (trace.forward_thread == 0)
    )
    if not len(behind) or not len(numbered):
        return forward
    numbered = numbered[np.argsort(trace.sequence[numbered], kind="stable")]
    wanted = trace.sequence[pieces.operator[behind]]
    place = np.searchsorted(trace.sequence[numbered], wanted, side="right") - 1
    found = (place >= 0) & (wanted >= 0)
    found[found] = trace.sequence[numbered[place[found]]] == wanted[found]
    # Without numbered forward threads, backward operators have such numbers too but are no forward operators.
    row = numbered[np.maximum(place, 0)]
    found &= row != pieces.operator[behind]
    forward[behind[found]] = row[found]
    return forward


def _innermost(trace: ProfilerTrace, ranges: Indices, rows: Ids, of_row: Ids, table: dict[str, int]) -> None:
    """Fill in the path of the innermost ranges around each row on the row's thread."""
    marks = np.concatenate([ranges, rows])
    asked = np.concatenate([np.zeros(len(ranges), np.bool_), np.ones(len(rows), np.bool_)])
    order = np.lexsort((asked, trace.start_us[marks], trace.thread[marks]))
    end_us = trace.end_us
    thread = -2
    open_ranges: list[tuple[float, str]] = []
    for row, is_asked in zip(marks[order].tolist(), asked[order].tolist(), strict=True):
        if trace.thread[row] != thread:
            thread, open_ranges = int(trace.thread[row]), []
        begin = float(trace.start_us[row])
        while open_ranges and open_ranges[-1][0] <= begin:
            open_ranges.pop()
        if is_asked:
            if open_ranges:
                of_row[row] = table.setdefault(open_ranges[-1][1], len(table))
            continue
        name = _plain(trace.name_of(row))
        path = f"{open_ranges[-1][1]}.{name}" if open_ranges else name
        open_ranges.append((float(end_us[row]), path))


def _plain(name: str) -> str:
    return name.removeprefix(_MODULE).strip("# ")
