"""The phase, the step, the module and the line of each task, from the ranges and stacks of a trace."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Codes, Flags, Ids, Indices, Times
from skyline.graph.rules.hand_off import Bursts
from skyline.graph.rules.names import Names
from skyline.graph.rules.pieces import Pieces
from skyline.graph.rules.recorded_tasks import RecordedTasks
from skyline.graph.rules.threads import HostThreads
from skyline.graph.task import PHASE
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import MarkedSteps, ProfilerTrace
from skyline.trace.record import CodeLine, Phase


@dataclass(frozen=True, slots=True, eq=False)
class TaskAttribution:
    """Columns for all recorded tasks, in their numbering, and the tables that they index."""

    phase: Codes
    iteration: Ids
    module: Ids
    line: Ids
    call_line: Ids
    modules: tuple[str, ...]
    lines: tuple[CodeLine, ...]


def attributed(
    recorded: RecordedTasks, hosts: HostThreads, steps: MarkedSteps, bursts: Bursts
) -> TaskAttribution:
    """GPU work inherits from the call that launched it; collectives always count as communication."""
    trace, pieces = recorded.trace, recorded.pieces
    iteration = iterations_of(pieces, steps)
    phase = phases_of(trace, recorded.names, hosts, pieces, iteration, bursts)
    forward = forward_rows(trace, pieces, phase == PHASE[Phase.BACKWARD])
    layers = layers_of(trace, recorded.names, pieces, forward)
    lines = lines_of(trace, forward)
    of_all = _with_launched(recorded, phase, PHASE[Phase.OTHER])
    of_all[recorded.first_work :][recorded.names.collective[recorded.work.event]] = PHASE[Phase.COMMUNICATION]
    return TaskAttribution(
        of_all,
        _with_launched(recorded, iteration, 0),
        _with_launched(recorded, layers.module, -1),
        _with_launched(recorded, lines.line, -1),
        _with_launched(recorded, lines.call_line, -1),
        layers.names,
        lines.lines,
    )


def _with_launched(recorded: RecordedTasks, column: npt.NDArray[Any], missing: int) -> npt.NDArray[Any]:
    """The column extended to GPU work with the values of its launches."""
    launched = np.full(len(recorded.work), missing).astype(column.dtype)
    known = np.flatnonzero(recorded.launch >= 0)
    launched[known] = column[recorded.launch[known]]
    return np.concatenate([column, launched])


def iterations_of(pieces: Pieces, steps: MarkedSteps) -> Ids:
    """The index of the step in which each piece begins.

    Pieces before the first step count as part of the first; pieces after the last step as part of the last.
    """
    place = np.searchsorted(steps.start_us, pieces.start_us, side="right") - 1
    return np.clip(place, 0, max(0, len(steps) - 1)).astype(np.int32)


def phases_of(
    trace: ProfilerTrace,
    names: Names,
    hosts: HostThreads,
    pieces: Pieces,
    iteration: Ids,
    bursts: Bursts,
) -> Codes:
    """The phase of each piece, from the ranges that PyTorch names and from the threads.

    Autograd's threads run the backward pass, as does the script's thread while it waits for them. Earlier work of
    the script's thread in a step, if it contains operators, is the forward pass. Loaders and optimizers have named
    ranges.
    """
    phase = np.full(len(pieces), PHASE[Phase.OTHER], np.uint8)
    start = pieces.start_us
    held = pieces.operator >= 0
    operator = np.maximum(pieces.operator, 0)
    own = pieces.thread == hosts.main
    backward = np.isin(pieces.thread, hosts.autograd) | (held & names.backward[operator])
    backward |= own & _within(start, bursts.start_us, bursts.end_us)
    first = np.full(int(iteration.max(initial=0)) + 1, np.inf)
    np.minimum.at(first, iteration[backward], start[backward])
    phase[own & held & (start < first[iteration])] = PHASE[Phase.FORWARD]
    phase[backward] = PHASE[Phase.BACKWARD]
    ranges = (trace.thread == hosts.main) & (trace.category <= Category.CPU_OP)
    optimizer: Indices = np.flatnonzero(ranges & names.optimizer)
    phase[own & _within(start, trace.start_us[optimizer], trace.end_us[optimizer])] = PHASE[Phase.OPTIMIZER]
    phase[held & names.loader[operator]] = PHASE[Phase.DATA]
    return phase


def _within(time_us: Times, start_us: Times, end_us: Times) -> Flags:
    """True for each time inside one of the ranges, which are sorted by start; ends are exclusive."""
    if not len(start_us):
        return np.zeros(len(time_us), np.bool_)
    reached = np.maximum.accumulate(end_us)
    place = np.searchsorted(start_us, time_us, side="right") - 1
    return (place >= 0) & (time_us < reached[np.maximum(place, 0)])


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
    forward[behind] = forward_operators(trace, pieces.operator[behind])
    return forward


def forward_operators(trace: ProfilerTrace, rows: Indices | Ids) -> Indices:
    """For backward operators the row of the forward operator with the same sequence number; -1 if unknown."""
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
    # Without numbered forward threads, backward operators have such numbers too but are no forward operators.
    forward[forward == rows] = -1
    return forward


def _innermost(trace: ProfilerTrace, ranges: Indices, rows: Ids, of_row: Ids, table: dict[str, int]) -> None:
    """Fill in the path of the innermost ranges around each row on the row's thread."""
    if not len(ranges):
        return
    marks = np.concatenate([ranges, rows])
    asked = np.concatenate([np.zeros(len(ranges), np.bool_), np.ones(len(rows), np.bool_)])
    order = np.lexsort((asked, trace.start_us[marks], trace.thread[marks]))
    marks, asked = marks[order], asked[order]
    columns = (marks, asked, trace.thread[marks], trace.start_us[marks], trace.end_us[marks])
    last = -2
    open_ranges: list[tuple[float, str]] = []
    for row, is_asked, thread, begin, end in zip(*(column.tolist() for column in columns), strict=True):
        if thread != last:
            last, open_ranges = thread, []
        while open_ranges and open_ranges[-1][0] <= begin:
            open_ranges.pop()
        if is_asked:
            if open_ranges:
                of_row[row] = table.setdefault(open_ranges[-1][1], len(table))
            continue
        name = _plain(trace.name_of(row))
        path = f"{open_ranges[-1][1]}.{name}" if open_ranges else name
        open_ranges.append((end, path))


def _plain(name: str) -> str:
    return name.removeprefix(_MODULE).strip("# ")


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
