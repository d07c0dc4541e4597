"""GPU to CPU: a waiting call returns when the awaited work is done, a copy of pageable memory when it has moved."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Ids, Indices, Times
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.event_wait import WAIT_EVENT
from skyline.graph.rules.names import Names
from skyline.graph.rules.pieces import Role
from skyline.graph.rules.recorded_tasks import RecordedTasks
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_WAITS_FOR_ALL = "Context Sync"
_ROUNDING_US = 2.0
"""Accuracy, in µs, of the alignment between the clocks of the host and the GPU."""


@dataclass(frozen=True, slots=True, eq=False)
class SynchronisationWaits:
    """Pieces whose measured time contains waiting, the end of the wait, and the awaited work."""

    piece: Ids
    until_us: Times
    dependencies: Dependencies


def synchronisations(recorded: RecordedTasks) -> SynchronisationWaits:
    """The work that each waiting call waits for, and the time at which it was done.

    Most traces do not name the awaited stream. The awaited work was launched before the call and done before its
    return. Among the last such works of all streams, the one that ended latest explains the return of the call. A
    call for the whole device waits for all of them. The call keeps its own cost, the time after the wait. The
    simulation computes the waiting time from the dependency.
    """
    pieces, work = recorded.pieces, recorded.work
    waits = np.flatnonzero((pieces.role == Role.SYNC) & recorded.names.wait[pieces.event])
    if not len(waits) or not len(work):
        return NO_WAITING
    named = _named_streams(recorded)
    called = np.where(recorded.launch >= 0, recorded.start_us[recorded.launch], -np.inf)
    launched_by = np.empty(len(work))
    sources: list[int] = []
    targets: list[int] = []
    until = recorded.start_us[waits].copy()
    bounds = np.append(np.flatnonzero(np.append(True, work.lane[1:] != work.lane[:-1])), len(work))
    for begin, behind in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        launched_by[begin:behind] = np.maximum.accumulate(called[begin:behind])
    last = np.stack(
        [
            np.searchsorted(launched_by[begin:behind], recorded.start_us[waits]) + begin - 1
            for begin, behind in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
    )
    for place, piece in enumerate(waits.tolist()):
        event = int(pieces.event[piece])
        fitting: list[tuple[float, int]] = []
        for lane, begin in enumerate(bounds[:-1].tolist()):
            done = int(last[lane, place])
            if done < begin:
                continue
            number = done + recorded.first_work
            stream = int(recorded.trace.stream[work.event[done]])
            if named.get(event, stream) not in (stream, -1):
                continue
            if recorded.end_us[number] <= recorded.end_us[piece] + _ROUNDING_US:
                fitting.append((float(recorded.end_us[number]), number))
        if not fitting:
            continue
        chosen = fitting if recorded.names.wait_for_all[event] else [max(fitting)]
        sources += [number for _, number in chosen]
        targets += [piece] * len(chosen)
        until[place] = max(until[place], min(max(fitting)[0], recorded.end_us[piece]))
    return SynchronisationWaits(
        waits.astype(np.int32), until, Dependencies.columns(sources, targets, Cause.SYNC)
    )


def _named_streams(recorded: RecordedTasks) -> dict[int, int]:
    """For each row of a waiting call the awaited stream, if the trace recorded waits; -1 for all streams."""
    trace = recorded.trace
    if not len(trace.waits):
        return {}
    of_call: dict[int, int] = {}
    for event, stream in zip(trace.waits.event.tolist(), trace.waits.stream.tolist(), strict=True):
        name = trace.name_of(event)
        if WAIT_EVENT not in name:
            named = stream if stream >= 0 else int(trace.stream[event])
            of_call[int(trace.correlation[event])] = -1 if _WAITS_FOR_ALL in name else named
    called = recorded.pieces.event[recorded.pieces.role == Role.SYNC].tolist()
    return {
        event: of_call[int(trace.correlation[event])]
        for event in called
        if int(trace.correlation[event]) in of_call
    }


NO_WAITING = SynchronisationWaits(
    np.empty(0, np.int32), np.empty(0), Dependencies.columns((), (), Cause.SYNC)
)


@dataclass(frozen=True, slots=True, eq=False)
class BlockingCopies:
    """Copies that blocked their caller: the GPU work, and the moment at which the wait ended."""

    work: Indices
    """Indices into the GPU work."""
    point_us: Times
    staged: Indices
    """1 where the call returned before its copy was done, else 0."""
    own_us: Times
    """Time of the call itself before the copy could begin, in µs."""


def blocking_copies(trace: ProfilerTrace, names: Names, work: GpuWork) -> BlockingCopies:
    """The copies whose call cannot have returned immediately.

    ``cudaMemcpyAsync`` is asynchronous for pinned memory only. From pageable memory it returns when the data are
    in a staging buffer, possibly before the last part arrives on the GPU. To pageable memory it returns when the
    copy is done. Small copies are staged before they begin and block nobody.
    """
    start, end = work.start_us, work.end_us
    called, free = work.called_us(trace), work.free_us
    returned = np.where(work.call >= 0, called + trace.duration_us[work.call], -np.inf)
    copy = (trace.category[work.event] == Category.COPY) & ~names.on_device[work.event]
    holding = copy & (returned > start) & (names.pageable[work.event] | (returned >= end - _ROUNDING_US))
    chosen = np.flatnonzero(holding)
    staged = (returned < end - _ROUNDING_US)[chosen]
    point = np.where(staged, start[chosen], np.minimum(end, returned)[chosen])
    own = start[chosen] - np.maximum(called[chosen], np.minimum(free[chosen], start[chosen]))
    return BlockingCopies(chosen, point, staged.astype(np.int64), np.maximum(own, 0.0))


def blocked(copies: BlockingCopies, first_work: int, points: Ids) -> Dependencies:
    """Dependencies of the tasks behind the split points of the calls on the copies of these calls.

    GPU work is numbered from ``first_work``; ``points`` are the numbers of the split points.
    """
    return Dependencies.columns(copies.work + first_work, points, Cause.SYNC, from_start=copies.staged == 1)
