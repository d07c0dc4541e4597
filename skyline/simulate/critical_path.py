"""The chain of work that bounds an iteration, by cause."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import fields
from functools import cache

import numpy as np
import numpy.typing as npt

from skyline.compiled import loop
from skyline.graph.column import Ids, Times
from skyline.graph.dependency import CAUSE, Cause
from skyline.graph.task import KINDS, PHASES, TaskKind, Tasks
from skyline.simulate.critical_shares import CriticalPath
from skyline.simulate.engine import Timeline
from skyline.trace.record import Phase

_NAMES = tuple(field.name for field in fields(CriticalPath))
_LAUNCH, _IDLE = _NAMES.index("launch"), _NAMES.index("idle")


def critical_tasks(timeline: Timeline) -> tuple[int, ...]:
    """The longest chain of work, first task first. Ties go to the task on the same lane, then to the earliest."""
    return tuple(critical_chain(timeline).tolist())


def critical_chain(timeline: Timeline) -> Ids:
    """The tasks of ``critical_tasks`` as an array."""
    freed = timeline.freed
    if not len(freed):
        return np.empty(0, np.int32)
    structure = timeline.graph.structure
    chain = np.empty(len(freed), np.int32)
    length = _walk_back(
        len(freed),
        timeline.before,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        timeline.starts,
        timeline.ends,
        freed,
        int(np.argmax(freed)),
        chain,
    )
    return np.ascontiguousarray(chain[:length][::-1])


def critical_path(timeline: Timeline, begin_us: float = 0.0, end_us: float | None = None) -> CriticalPath:
    """The time between two moments (by default the makespan) by the cause of the critical task that runs then.

    Time between two tasks of the chain counts as launch latency if a launch links them, else as idle. If the
    next task starts before its launching call has returned, the call counts only up to that start.
    """
    span = timeline.makespan_us if end_us is None else end_us
    chain = critical_chain(timeline)
    if not len(chain) or span <= begin_us:
        return CriticalPath(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    start, own_end, until = chain_us(timeline, chain, begin_us, span)
    spent = np.bincount(
        causes_of(timeline.graph.tasks, chain), weights=own_end - start, minlength=len(_NAMES)
    )
    spent[_IDLE] += start[0] - begin_us
    between = (until - own_end)[:-1]
    launched = _linked_by_launch(timeline)[chain[1:]]
    spent[_LAUNCH] += between[launched].sum()
    spent[_IDLE] += between[~launched].sum()
    return CriticalPath(*(spent / spent.sum()).tolist())


def chain_us(timeline: Timeline, chain: Ids, begin_us: float, end_us: float) -> tuple[Times, Times, Times]:
    """For each task of a chain its start, its end and the start of the next task, limited to two times."""
    start = timeline.starts[chain]
    until = np.append(start[1:], max(end_us, float(start[-1])))
    own_end = np.maximum(np.minimum(timeline.freed[chain], until), start)
    clipped = [np.clip(times, begin_us, end_us) for times in (start, own_end, until)]
    return clipped[0], clipped[1], clipped[2]


def causes_of(tasks: Tasks, chosen: Ids) -> npt.NDArray[np.intp]:
    """For each chosen task the index of its cause among the fields of ``CriticalPath``."""
    return _causes().take(tasks.kind[chosen] * np.intp(len(PHASES)) + tasks.phase[chosen])


@cache
def _causes() -> npt.NDArray[np.intp]:
    return np.array([_NAMES.index(_cause(kind, phase)) for kind in KINDS for phase in PHASES])


def _cause(kind: TaskKind, phase: Phase) -> str:
    if kind in (TaskKind.KERNEL, TaskKind.COPY):
        return "gpu_communication" if phase is Phase.COMMUNICATION else "gpu_compute"
    if kind is TaskKind.DATA or phase is Phase.DATA:
        return "data"
    return "launch" if kind is TaskKind.LAUNCH else "cpu"


def _linked_by_launch(timeline: Timeline) -> npt.NDArray[np.bool_]:
    dependencies = timeline.graph.structure.dependencies
    linked = np.zeros(len(timeline.starts), np.bool_)
    linked[dependencies.target[dependencies.cause == CAUSE[Cause.LAUNCH]]] = True
    return linked


@loop("iiifbfffn", writes="i")
def _walk_back(
    before: Sequence[int],
    incoming_offsets: Sequence[int],
    incoming_source: Sequence[int],
    incoming_lag: Sequence[float],
    incoming_from_start: Sequence[bool],
    starts: Sequence[float],
    ends: Sequence[float],
    freed: Sequence[float],
    last: int,
    chain: MutableSequence[int],
) -> int:
    """Fill ``chain`` from its last task backwards and return its length."""
    length = 0
    index = last
    while index >= 0:
        chain[length] = index
        length += 1
        start = starts[index] - 1e-6  # tolerance for rounding
        previous = before[index]
        if previous < 0 or freed[previous] < start:
            previous = -1
            for place in range(incoming_offsets[index], incoming_offsets[index + 1]):
                source = incoming_source[place]
                since = starts[source] if incoming_from_start[place] else ends[source]
                if since + incoming_lag[place] >= start:
                    previous = source
                    break
        index = previous + 0
    return length
