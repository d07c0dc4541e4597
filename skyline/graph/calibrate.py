"""Recording inflates time: give the tasks of a recorded graph the times that the bare iterations took."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skyline.graph.column import Times, sums
from skyline.graph.graph import Graph
from skyline.graph.insertion import Insertion, insert
from skyline.graph.part import PARTS, Part, parts_of
from skyline.graph.scaling import scale
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.trace.phase import Phase

_DEAREST = 1.5
_LEAST_LEFT = 0.3
"""However much recording had to note on a task, this share of its time was its own."""

_MOST_GROWTH = 1.0
"""An operator may take twice as long without the recording; what is lacking beyond that, everything shares."""

_PHASE_OF_PART = {
    Part.LOADER: Phase.DATA,
    Part.BACKWARD: Phase.BACKWARD,
    Part.OPTIMIZER: Phase.OPTIMIZER,
    Part.REST: Phase.OTHER,
}


def calibrate(graph: Graph, lane: str, target_ms: Mapping[Part, float]) -> Graph:
    """Bring the tasks of ``lane``, part by part and iteration by iteration, to the bare milliseconds.

    What a part took longer under recording is taken first from the tasks on which recording had most to note:
    a thousand small calls become much slower by it, one long operator or a sleep not at all. What a part took
    less goes first to its operators: recording never makes Python quicker, but it holds memory, which spares
    operators the page faults of getting it anew. The rest is scaled.

    A part without a bare time (zero) cannot be told apart from the rest, so its tasks are scaled with the
    rest. A part that has a bare time but no task in an iteration gets one task without a line, so that every
    iteration of the lane sums to the target.
    """
    told_apart = {part for part, ms in target_ms.items() if ms > 0}
    tasks = graph.tasks
    chosen = np.flatnonzero(tasks.lane == tasks.lane_code(lane))
    effective = np.array([PARTS.index(part if part in told_apart else Part.REST) for part in PARTS])
    iterations = np.array(graph.iterations)
    stretch = (
        np.searchsorted(iterations, tasks.iteration[chosen]) * len(PARTS) + effective[parts_of(tasks)[chosen]]
    )
    stretches = len(iterations) * len(PARTS)
    targets_us = np.tile([target_ms.get(part, 0.0) * 1e3 for part in PARTS], len(iterations))
    times_us = graph.durations[chosen] + graph.gaps[chosen]
    recorded_us = sums(stretch, times_us, stretches)
    noted_us = sums(stretch, tasks.recording_us[chosen], stretches)
    rates = _rates(recorded_us - targets_us, noted_us)[stretch]
    own_us = np.where(
        rates > 0,
        np.maximum(_LEAST_LEFT * times_us, times_us - rates * tasks.recording_us[chosen]),
        times_us,
    )
    own = np.divide(own_us, times_us, out=np.ones(len(chosen)), where=times_us > 0)
    work_us, python_us = graph.durations[chosen] * own, graph.gaps[chosen] * own
    work_us = (
        work_us
        * _growth(targets_us - sums(stretch, own_us, stretches), sums(stretch, work_us, stretches))[stretch]
    )
    remaining_us = sums(stretch, work_us + python_us, stretches)
    rest = np.divide(targets_us, remaining_us, out=np.ones(stretches), where=remaining_us > 0)[stretch]
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    durations[chosen], gaps[chosen] = work_us * rest, python_us * rest
    scaled = graph.with_times(durations=durations, gaps=gaps)
    missing = np.flatnonzero((targets_us > 0) & (recorded_us <= 0))
    if not len(missing):
        return scaled
    return insert(scaled, [_unrecorded(graph, lane, int(one), float(targets_us[one])) for one in missing])


def _rates(excess_us: Times, noted_us: Times) -> Times:
    """How much of what recording is estimated to have taken it did take, as far as the excess over bare times allows.

    ``noted_us`` is what recording took of the whole part by the rough estimate of the records; the machine may
    be up to ``_DEAREST`` times slower at it.
    """
    possible = (excess_us > 0) & (noted_us > 0)
    return np.minimum(_DEAREST, np.divide(excess_us, noted_us, out=np.zeros(len(noted_us)), where=possible))


def _growth(lacking_us: Times, work_us: Times) -> Times:
    """What to multiply the operators of each part with, so that they make up what is lacking, as far as they may."""
    possible = (lacking_us > 0) & (work_us > 0)
    return 1 + np.minimum(
        _MOST_GROWTH, np.divide(lacking_us, work_us, out=np.zeros(len(work_us)), where=possible)
    )


def _unrecorded(graph: Graph, lane: str, stretch: int, duration_us: float) -> Insertion:
    """One task for time that was measured bare and left no record, at the end of the iteration on the lane."""
    iteration, part = graph.iterations[stretch // len(PARTS)], PARTS[stretch % len(PARTS)]
    tasks = graph.tasks
    earlier = np.flatnonzero((tasks.lane == tasks.lane_code(lane)) & (tasks.iteration <= iteration))
    kind = TaskKind.DATA if part is Part.LOADER else TaskKind.CPU
    task = Task("unrecorded", kind, WorkClass.OTHER, lane, _PHASE_OF_PART[part], iteration)
    return Insertion(task, duration_us, int(earlier[-1]) if len(earlier) else -1)


def scale_host_to(graph: Graph, lane: str, factor: float) -> Graph:
    """All CPU work of a lane, gaps included, times one factor; what it waits for on a GPU stays as recorded."""
    return scale(graph, np.flatnonzero(graph.tasks.lane == graph.tasks.lane_code(lane)), factor, gaps=True)
