"""CPU order: the time of one host thread as consecutive pieces."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices, Times
from skyline.graph.rules.names import Names
from skyline.graph.rules.pieces import Pieces, Role
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_ROUNDING_US = 1.5
"""Longest overlap, in µs, that counts as rounding: old traces have whole microseconds."""


def cpu_order(trace: ProfilerTrace, names: Names, thread: int, launches: Flags) -> tuple[Pieces, int]:
    """The pieces of a thread in order, and the number of clipped events.

    Operators stay whole, the outermost first. Only calls that launch GPU work or wait for it are cut out, because
    the GPU depends on them. An operator with one launch becomes up to three pieces: before, the launch, after.
    Time between pieces (Python, dispatch) becomes the gap of the preceding piece. An event that begins inside
    another one and ends after it is clipped to the outer event.
    """
    here = trace.thread == thread
    whole = (trace.category == Category.CPU_OP) & ~names.context | names.loader & (
        trace.category <= Category.CPU_OP
    ) & (trace.category != Category.PYTHON)
    operators, operator_end, clipped = _outermost(trace, np.flatnonzero(here & whole))
    is_call = np.isin(trace.category, (Category.RUNTIME, Category.DRIVER))
    calls, call_end, _ = _outermost(trace, np.flatnonzero(here & is_call & (launches | names.wait)))
    start, end = trace.start_us[operators], operator_end
    call_start = trace.start_us[calls]
    inside = np.searchsorted(start, call_start, side="right") - 1
    if len(operators):
        inside[inside >= 0] = np.where(
            call_start[inside >= 0] < end[inside[inside >= 0]], inside[inside >= 0], -1
        )
    held = np.flatnonzero(inside >= 0)
    # An operator has a piece from its start, and one from the end of each of its calls, up to the next call.
    of = np.concatenate([np.arange(len(operators)), inside[held]])
    begin = np.concatenate([start, call_end[held]])
    following = np.concatenate([np.searchsorted(call_start, start), held + 1])
    stop = end[of] if len(operators) else np.empty(0)
    cut = following < len(calls)
    cut[cut] = inside[following[cut]] == of[cut]
    stop[cut] = np.minimum(call_start[following[cut]], stop[cut])
    has_calls = np.zeros(len(operators), np.bool_)
    has_calls[inside[held]] = True
    kept = (stop > begin) | ((np.arange(len(of)) < len(operators)) & ~has_calls[of])
    of, begin, stop = of[kept], begin[kept], np.maximum(stop, begin)[kept]
    event = np.concatenate([operators[of], calls]).astype(np.int32)
    around = np.concatenate(
        [
            operators[of],
            np.where(inside >= 0, operators[inside], -1) if len(operators) else np.full(len(calls), -1),
        ]
    )
    start = np.concatenate([begin, call_start])
    end = np.concatenate([stop, call_end])
    role = np.concatenate(
        [
            np.full(len(of), Role.OPERATOR, np.uint8),
            np.where(names.wait[calls] & ~launches[calls], Role.SYNC, Role.LAUNCH).astype(np.uint8),
        ]
    )
    order = np.lexsort((end, start))
    start, end = _one_after_the_other(start[order], end[order])
    return (
        Pieces(
            np.full(len(order), thread, np.int32),
            start,
            end,
            event[order],
            around[order].astype(np.int32),
            role[order],
        ),
        clipped,
    )


def _outermost(trace: ProfilerTrace, rows: Indices) -> tuple[Indices, Times, int]:
    """The rows inside no other row, their ends, and the number of clipped rows among the rest."""
    if not len(rows):
        return rows, np.empty(0), 0
    start, end = trace.start_us[rows], trace.start_us[rows] + trace.duration_us[rows]
    reached = np.empty(len(rows))
    reached[0] = -np.inf
    np.maximum.accumulate(end[:-1], out=reached[1:])
    # Of two rows with equal spans the first contains the other, even if both have zero length.
    same = np.append(False, (start[1:] == start[:-1]) & (end[1:] == end[:-1]))
    outer = (start >= reached) & ~same
    overlapping = ~outer & (end > reached + _ROUNDING_US)
    # A row that overlaps its outer row's end by more than rounding is cut there: the time belongs to the outer row.
    return rows[outer], end[outer], int(np.count_nonzero(overlapping))


def _one_after_the_other(start: Times, end: Times) -> tuple[Times, Times]:
    """Separate pieces that overlap through rounding."""
    if not len(start):
        return start, end
    reached = np.maximum.accumulate(end)
    start = np.maximum(start, np.append(start[0], reached[:-1]))
    return start, np.maximum(start, end)
