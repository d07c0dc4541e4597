"""Which task each moment of the iteration belongs to, where the host and a GPU work side by side."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Times
from skyline.graph.task import TaskKind
from skyline.graph.tasks import KIND, PHASES
from skyline.simulate.timeline import Timeline
from skyline.trace.phase import PhaseTimes


def billed_us(timeline: Timeline, lane: str) -> tuple[float, ...]:
    """µs of the timeline per task: while the GPU works a moment is that of its kernel, else that of the host's task.

    ``lane`` is the script's own thread. Of kernels that run at once the one that started first is billed. Where
    neither works nobody is billed. Without a GPU this is the time of each task of the lane and the gap after it.
    """
    tasks = timeline.graph.tasks
    billed = np.zeros(len(tasks))
    on_gpu = np.flatnonzero((tasks.kind == KIND[TaskKind.KERNEL]) | (tasks.kind == KIND[TaskKind.COPY]))
    on_gpu = on_gpu[np.argsort(timeline.starts[on_gpu], kind="stable")]
    until = np.maximum.accumulate(np.append(0.0, timeline.ends[on_gpu]))[:-1]
    begins, ends = np.maximum(timeline.starts[on_gpu], until), timeline.ends[on_gpu]
    works = ends > begins
    begins, ends = begins[works], ends[works]
    billed[on_gpu[works]] = ends - begins
    structure = timeline.graph.structure
    if lane in structure.lanes:
        own = np.flatnonzero(structure.lane_of == structure.lanes.index(lane))
        start, end = timeline.starts[own], timeline.freed[own]
        busy = _busy_before(end, begins, ends) - _busy_before(start, begins, ends)
        billed[own] = np.maximum(0.0, end - start - busy)
    return tuple(billed.tolist())


def _busy_before(moments: Times, begins: Times, ends: Times) -> Times:
    """How much of the spans, which do not overlap and are in order, lies before each moment."""
    so_far = np.append(0.0, np.cumsum(ends - begins))
    count = np.searchsorted(begins, moments, side="right")
    last = np.maximum(count - 1, 0)
    beyond = np.maximum(0.0, ends[last] - moments) if len(ends) else 0.0
    return so_far[count] - np.where(count > 0, beyond, 0.0)


def billed_phases(timeline: Timeline, billed: tuple[float, ...]) -> PhaseTimes:
    """Milliseconds per iteration and phase, as billed."""
    spent = np.bincount(timeline.graph.tasks.phase, weights=billed, minlength=len(PHASES)).tolist()
    count = max(1, len(timeline.graph.iterations))
    return PhaseTimes.of({phase: time / count / 1e3 for phase, time in zip(PHASES, spent, strict=True)})
