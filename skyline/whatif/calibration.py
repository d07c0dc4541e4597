"""Times of a recorded graph, brought to those of iterations that nothing recorded and nothing held up."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log

import numpy as np

from skyline.graph.column import Indices, Times, sums
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.merging import coalesce
from skyline.graph.part import PARTS, Part, parts_of
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.simulate.engine import simulate, steady_step_ms
from skyline.trace.record import BareTimes, Phase
from skyline.whatif.constant import Constant
from skyline.whatif.cost.tried_iterations import TriedIterations

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


ROUNDING = 1e-6
"""A change by less than this share of a step is rounding."""
_ROUNDS = (8, 7, 6, 5, 4, 3, 2, 1, 1, 1)
"""Each makes one of so many parts of the correction that is left: the side that bounds the step may change on the way.
"""
_FITTED = 1e-5
"""A step as near as this to its time is not corrected, in the logarithm."""
_UNHELD = Constant.at(
    0.1,
    "quantile of a part's bare times that is the host's own: waiting for a GPU or a full queue only adds to it",
)
_MEASURED = (Part.LOADER, Part.BACKWARD, Part.OPTIMIZER)

REPETITIONS = 8
"""Of the recorded iterations; after as many, lanes that do not wait for one another tell which is the slowest."""


def settled(recorded: Graph, tried: TriedIterations | None) -> Graph:
    """Without hold-ups, and as it was tried where it was.

    Where lanes wait for one another, how long a task took may be what another took: all stays as it was.
    """
    if len(recorded.structure.lanes) > 1:
        return recorded
    return steadied(recorded) if tried is None else tried.settled(steadied(recorded))


def calibrated(
    recorded: Graph,
    lane: str,
    parts_ms: Mapping[Part, float],
    iteration_ms: Interval,
    *,
    ahead: bool,
    bare: BareTimes | None = None,
) -> Graph:
    """With the times that the recording inflated scaled so that the graph simulates to the bare iteration.

    ``bare`` is given where the script's thread was timed as it runs ahead of a GPU.
    """
    if len(recorded.structure.lanes) == 1:
        return calibrate(recorded, lane, parts_ms)
    unheld = recorded if bare is None else _unheld(recorded, lane, bare)
    return fitted(unheld, lane, iteration_ms.value, ahead)


def without_lines(graph: Graph) -> Graph:
    """The graph with neighbours of one kind, phase and iteration as one task each."""
    tasks = graph.tasks
    return coalesce(graph, (tasks.kind, tasks.work, tasks.iteration, tasks.phase))


def _unheld(graph: Graph, lane: str, bare: BareTimes) -> Graph:
    """The host as fast as its own bare times show it where nothing held it; recording never makes it quicker."""
    tasks, took = graph.tasks, graph.durations + graph.gaps
    chosen = np.flatnonzero(tasks.lane == tasks.lane_code(lane))
    part = parts_of(tasks)[chosen]
    recorded_ms = np.bincount(part, took[chosen], len(PARTS)) / 1e3 / max(1, len(graph.iterations))
    own_ms = np.zeros(len(PARTS))
    for one, samples in zip(_MEASURED, (bare.data_ms, bare.backward_ms, bare.optimizer_ms), strict=True):
        own_ms[PARTS.index(one)] = np.quantile(samples, _UNHELD.value) if samples else 0.0
    known = (own_ms > 0) & (recorded_ms > 0)
    # Batches are fetched by other code than launches work; what was not timed launches work, too.
    launching = known & (np.arange(len(PARTS)) != PARTS.index(Part.LOADER))
    rest = own_ms[launching].sum() / recorded_ms[launching].sum() if launching.any() else 1.0
    factors = np.divide(own_ms, recorded_ms, out=np.full(len(PARTS), rest), where=known)
    return scale(graph, chosen, np.minimum(1.0, factors)[part], gaps=True)


def host_spread(graph: Graph, lane: str, bare: BareTimes, step_ms: float) -> float:
    """The factor by which the host may be slower than in the calibrated graph, because its bare times scatter.

    Longer than the step it cannot be: then the step would be longer.
    """
    sums = np.sum([bare.data_ms, bare.backward_ms, bare.optimizer_ms], axis=0)
    own_ms = float(np.quantile(sums, _UNHELD.value)) if len(sums) else 0.0
    host = graph.tasks.lane == graph.tasks.lane_code(lane)
    host_ms = float((graph.durations + graph.gaps)[host].sum()) / 1e3 / max(1, len(graph.iterations))
    if own_ms <= 0 or host_ms <= 0:
        return 1.0
    return max(1.0, min(float(np.median(sums)) / own_ms, step_ms / host_ms))


def fitted(graph: Graph, lane: str, target_ms: float, ahead: bool) -> Graph:
    """The host and all else scaled by the two factors nearest to 1 that make the step as long as it was bare.

    Of a step that waits for its GPU the time does not tell how fast the host is, and the other way round. The
    elasticity tells how much of the step is the host's: each side takes part in the correction by its own share. It
    is measured over the part of the correction that is made with it, for a host that is about as busy as the GPU bounds
    the step on one side of this point only.
    """
    host = graph.tasks.lane == graph.tasks.lane_code(lane)
    for left in _ROUNDS:
        now_ms = simulated_ms(graph, lane, ahead)
        if now_ms <= 0 or target_ms <= 0 or abs(part := log(target_ms / now_ms) / left) * left < _FITTED:
            break
        changed_ms = simulated_ms(scale_host_to(graph, lane, exp(part)), lane, ahead)
        own = min(1.0, max(0.0, log(changed_ms / now_ms) / part))
        whole = part / (own * own + (1 - own) * (1 - own))
        factors: Times = np.where(host, exp(whole * own), exp(whole * (1 - own)))
        graph = scale(graph, np.arange(len(graph)), factors, gaps=True)
    return graph


def simulated_ms(graph: Graph, lane: str, ahead: bool) -> float:
    """Ms per iteration in a run that goes on: of the busiest lane where the script's thread runs ahead of the GPU."""
    return steady_step_ms(graph, at_most=REPETITIONS) if ahead else simulate(graph).iteration_ms(lane)
