"""Removal of the recording overhead and of delays: tasks are scaled to the unrecorded iteration times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skyline.graph.column import Indices, Times, sums
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.part import PARTS, Part, parts_of
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.trace.record import Phase

_DEAREST = 1.5
_LEAST_LEFT = 0.3
"""Least share of a task's time that remains after the recording overhead is subtracted."""

_MOST_GROWTH = 1.0
"""Largest relative growth of an operator's time; missing time beyond that is spread over all tasks."""

_PHASE_OF_PART = {
    Part.LOADER: Phase.DATA,
    Part.BACKWARD: Phase.BACKWARD,
    Part.OPTIMIZER: Phase.OPTIMIZER,
    Part.REST: Phase.OTHER,
}


def calibrate(graph: Graph, lane: str, target_ms: Mapping[Part, float]) -> Graph:
    """Scale the tasks of ``lane``, per part and iteration, to the unrecorded times ``target_ms``, in ms.

    Excess time of a part is subtracted first from the tasks with the most recorded events: recording slows a
    thousand small calls far more than one long operator or a sleep. Missing time of a part goes first to its
    operators: recording never speeds up Python, but it retains memory, which saves operators the page faults of a
    new allocation. The remainder is scaled proportionally.

    A part without an unrecorded time (zero) is scaled together with the remainder of the iteration. A part with an
    unrecorded time but without tasks in an iteration gets one task without a source line. Every iteration of the
    lane then sums to the target.
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
    """The factor on the estimated recording overhead of each part that explains its excess time.

    ``noted_us`` is the overhead of the whole part as estimated from its records. The actual overhead may be up to
    ``_DEAREST`` times as large.
    """
    possible = (excess_us > 0) & (noted_us > 0)
    return np.minimum(_DEAREST, np.divide(excess_us, noted_us, out=np.zeros(len(noted_us)), where=possible))


def _growth(lacking_us: Times, work_us: Times) -> Times:
    """The factor, within its limit, on the operators of each part that makes up for the missing time."""
    possible = (lacking_us > 0) & (work_us > 0)
    return 1 + np.minimum(
        _MOST_GROWTH, np.divide(lacking_us, work_us, out=np.zeros(len(work_us)), where=possible)
    )


def _unrecorded(graph: Graph, lane: str, stretch: int, duration_us: float) -> Insertion:
    """A task at the end of the iteration for time that was measured without recording but left no record."""
    iteration, part = graph.iterations[stretch // len(PARTS)], PARTS[stretch % len(PARTS)]
    tasks = graph.tasks
    earlier = np.flatnonzero((tasks.lane == tasks.lane_code(lane)) & (tasks.iteration <= iteration))
    kind = TaskKind.DATA if part is Part.LOADER else TaskKind.CPU
    task = Task("unrecorded", kind, WorkClass.OTHER, lane, _PHASE_OF_PART[part], iteration)
    return Insertion(task, duration_us, int(earlier[-1]) if len(earlier) else -1)


def scale_host_to(graph: Graph, lane: str, factor: float) -> Graph:
    """Scale all CPU work of a lane, gaps included, by one factor; waits for the GPU stay as recorded."""
    return scale(graph, np.flatnonzero(graph.tasks.lane == graph.tasks.lane_code(lane)), factor, gaps=True)


_LEAST_ITERATIONS = 3
_HELD_UP, _HELD_UP_US = 3.0, 500.0
"""A task is an outlier if it exceeds the median over the iterations by this factor and by this time, in µs. Few
iterations are recorded: without removal, one delay of 15 ms can add a tenth to the total."""


def steadied(graph: Graph) -> Graph:
    """Delayed tasks, and the Python time behind them, take the median of their iterations.

    Tasks are compared if name, module, phase and lane agree, in order within the iteration. With fewer than three
    iterations, nothing changes.
    """
    if len(graph.iterations) < _LEAST_ITERATIONS:
        return graph
    alike = _alike(graph)
    return graph.with_times(_settled(graph.durations, alike), _settled(graph.gaps, alike))


def _alike(graph: Graph) -> Indices:
    """For each task the number of its comparison group."""
    tasks = graph.tasks
    columns = np.stack([tasks.name, tasks.module, tasks.phase, tasks.lane, tasks.iteration])
    _, of_iteration = np.unique(columns, axis=1, return_inverse=True)
    place = np.empty(len(graph), np.int64)
    order = np.argsort(of_iteration, kind="stable")
    _, first, counts = np.unique(of_iteration[order], return_index=True, return_counts=True)
    place[order] = np.arange(len(graph)) - np.repeat(first, counts)
    _, group = np.unique(np.vstack([columns[:-1], place]), axis=1, return_inverse=True)
    return group


def _settled(times_us: Times, group: Indices) -> Times:
    order = np.lexsort((times_us, group))
    _, first, counts = np.unique(group[order], return_index=True, return_counts=True)
    middle = times_us[order[first + (counts - 1) // 2]]
    usual_us, known = middle[group], counts[group] >= _LEAST_ITERATIONS
    held_up = known & (times_us > _HELD_UP * usual_us + _HELD_UP_US)
    return np.where(held_up, usual_us, times_us)
