"""What an iteration waits for: the chain of work that bounds it, by cause."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from skyline.compiled import loop
from skyline.graph.column import Ids
from skyline.graph.dependency import CAUSE, Cause
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, PHASE, Tasks
from skyline.simulate.timeline import Timeline
from skyline.trace.phase import Phase


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """What the iteration waits for, as shares that sum to 1."""

    cpu: float
    gpu_compute: float
    gpu_communication: float
    launch: float
    data: float
    idle: float


_NAMES = tuple(field.name for field in fields(CriticalPath))
_LAUNCH, _IDLE = _NAMES.index("launch"), _NAMES.index("idle")


def critical_tasks(timeline: Timeline) -> tuple[int, ...]:
    """The longest chain of work, first task first. Ties go to the task on the same lane, then to the earliest."""
    return tuple(critical_chain(timeline).tolist())


def critical_chain(timeline: Timeline) -> Ids:
    """As ``critical_tasks``, as an array."""
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
    return chain[:length][::-1]


def critical_path(timeline: Timeline) -> CriticalPath:
    """Each moment of the makespan billed to the task of the critical chain that runs then.

    Time between two tasks of the chain is launch latency where a launch links them, idle otherwise. The time
    of a task that was launched before its launching call returned counts from where the next task starts.
    """
    span = timeline.makespan_us
    chain = critical_chain(timeline)
    if not len(chain) or span <= 0:
        return CriticalPath(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    start = timeline.starts[chain]
    until = np.append(start[1:], span)
    own_end = np.minimum(timeline.freed[chain], until)
    causes = causes_of(timeline.graph.tasks, chain)
    spent = np.bincount(causes, weights=np.maximum(0.0, own_end - start), minlength=len(_NAMES))
    spent[_IDLE] += start[0]
    between = np.maximum(0.0, until - np.maximum(own_end, start))[:-1]
    launched = _linked_by_launch(timeline)[chain[1:]]
    spent[_LAUNCH] += between[launched].sum()
    spent[_IDLE] += between[~launched].sum()
    return CriticalPath(*(spent / spent.sum()).tolist())


def causes_of(tasks: Tasks, chosen: Ids) -> npt.NDArray[np.intp]:
    """For each chosen task the cause that its time is billed to, as its place among the fields of ``CriticalPath``."""
    kind, phase = tasks.kind[chosen], tasks.phase[chosen]
    on_gpu = (kind == KIND[TaskKind.KERNEL]) | (kind == KIND[TaskKind.COPY])
    return np.select(
        [
            on_gpu & (phase == PHASE[Phase.COMMUNICATION]),
            on_gpu,
            (kind == KIND[TaskKind.DATA]) | (phase == PHASE[Phase.DATA]),
            kind == KIND[TaskKind.LAUNCH],
        ],
        [_NAMES.index(name) for name in ("gpu_communication", "gpu_compute", "data", "launch")],
        _NAMES.index("cpu"),
    )


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
    """Fills ``chain`` from its last task on; gives its length."""
    length = 0
    index = last
    while index >= 0:
        chain[length] = index
        length += 1
        start = starts[index] - 1e-6  # what rounding may have added
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
