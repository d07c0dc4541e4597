"""Assignment of each moment of a timeline to one task if several lanes are busy at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.spans import Spans, merged
from skyline.graph.task import KIND, PHASES, TaskKind
from skyline.simulate.engine import Timeline
from skyline.trace.record import PhaseTimes


def moments_us(
    timeline: Timeline, groups: Sequence[Indices], begin_us: float = 0.0, end_us: float | None = None
) -> Times:
    """For each task the time in µs between two moments that is assigned to it.

    A moment belongs to the first group with a running task (gaps included), and within the group to the task
    that started first. A moment without a running task in any group is not assigned.
    """
    until = timeline.makespan_us if end_us is None else end_us
    return _owned(np.clip(timeline.starts, begin_us, until), np.clip(timeline.freed, begin_us, until), groups)


def billed_us(timeline: Timeline, lane: str) -> tuple[float, ...]:
    """The assigned time of each task in µs: a moment belongs to a kernel while the GPU works, else to the host's task.

    ``lane`` is the script's own thread. Of concurrent kernels, the one that started first counts. Moments in
    which neither works are not assigned. Without a GPU, the result is the time of each task of the lane plus
    its gap.
    """
    tasks = timeline.graph.tasks
    on_gpu = (tasks.kind == KIND[TaskKind.KERNEL]) | (tasks.kind == KIND[TaskKind.COPY])
    until = np.where(on_gpu, timeline.ends, timeline.freed)
    own = np.flatnonzero((tasks.lane == tasks.lane_code(lane)) & ~on_gpu)
    return tuple(_owned(timeline.starts, until, (np.flatnonzero(on_gpu), own)).tolist())


def billed_phases(timeline: Timeline, billed: tuple[float, ...]) -> PhaseTimes:
    """Milliseconds per iteration and phase, from the assigned times."""
    spent = np.bincount(timeline.graph.tasks.phase, weights=billed, minlength=len(PHASES)).tolist()
    count = max(1, len(timeline.graph.iterations))
    return PhaseTimes.of({phase: time / count / 1e3 for phase, time in zip(PHASES, spent, strict=True)})


def _owned(starts: Times, ends: Times, groups: Sequence[Indices]) -> Times:
    owned = np.zeros(len(starts))
    taken = Spans(np.empty(0), np.empty(0))
    for group in groups:
        chosen = group[np.argsort(starts[group], kind="stable")]
        end = ends[chosen]
        start = np.maximum(starts[chosen], np.append(-np.inf, np.maximum.accumulate(end))[:-1])
        longer = end > start
        start, end, chosen = start[longer], end[longer], chosen[longer]
        owned[chosen] = end - start - (taken.before(end) - taken.before(start))
        taken = taken.together(merged(start, end))
    return np.maximum(owned, 0.0)
