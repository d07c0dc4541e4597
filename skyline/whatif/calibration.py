"""Calibration of a recorded graph to the times of iterations without a recorder and without delays.

On one lane, tasks are scaled to the unrecorded times of their parts. With a GPU, the host's own time is
determined first: recording inflates it, and a thread that is far ahead of its GPU waits in launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices, Times, sums
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.launching import ending_waits
from skyline.graph.merging import coalesce
from skyline.graph.task import PARTS, Part, Task, TaskKind, WorkClass, parts_of
from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.simulate.engine import Timeline, simulate, steady_step_ms
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes, Phase
from skyline.whatif.constant import Constant
from skyline.whatif.cost.tried_iterations import TriedIterations

ROUNDING = 1e-6
"""A change of less than this share of a step is rounding."""
_ROUNDS = (8, 7, 6, 5, 4, 3, 2, 1, 1, 1)
"""Each round applies 1/n of the remaining correction, because the side that bounds the step may change on the way."""
_FITTED = 1e-5
"""A step whose time differs by less than this from the target, in the logarithm, is not corrected."""

REPETITIONS = 8
"""Repetitions of the recorded iterations. After these, lanes that do not wait for one another show which is slowest."""


def settled(recorded: Graph, tried: TriedIterations | None) -> Graph:
    """The graph without delays, with the times of trials for operators that were tried.

    A graph with several lanes stays as it is: where lanes wait for one another, the time of one task may
    reflect the time of another.
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
) -> Graph:
    """The graph with the times that recording inflated scaled so that it simulates to the bare iteration.

    With ``ahead``, the script's thread runs ahead of a GPU, and the graph already has the host's own time.
    """
    if len(recorded.structure.lanes) == 1:
        return calibrate(recorded, lane, parts_ms)
    return fitted(recorded, lane, iteration_ms.value, ahead)


def without_lines(graph: Graph) -> Graph:
    """The graph with neighbouring tasks of one kind, phase and iteration merged into one task."""
    tasks = graph.tasks
    return coalesce(graph, (tasks.kind, tasks.work, tasks.iteration, tasks.phase))


def fitted(graph: Graph, lane: str, target_ms: float, ahead: bool) -> Graph:
    """The graph with the host and all other work scaled so that the step takes as long as without recording.

    Of all pairs of factors, the pair nearest to 1 is chosen. The time of a step that waits for its GPU does
    not show how fast the host is, and the other way round. The elasticity of the step time to the host tells
    the host's share of the step, and each side takes its share of the correction. The elasticity is measured
    over the part of the correction that uses it: a host that is about as busy as the GPU bounds the step on
    only one side of this point.
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
    """The time per iteration in a long run, in ms: that of the busiest lane if the thread runs ahead of the GPU."""
    return steady_step_ms(graph, at_most=REPETITIONS) if ahead else simulate(graph).iteration_ms(lane)


_DEAREST = Constant.at(
    1.5, "an assumption: recording costs a part at most this much more than its records say"
)
_LEAST_LEFT = Constant.at(
    0.3, "an assumption: least share of a task's time that remains after the recording overhead is subtracted"
)
_MOST_GROWTH = Constant.at(
    1.0,
    "an assumption: largest relative growth of an operator; missing time beyond that is spread over all tasks",
)
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
        np.maximum(_LEAST_LEFT.value * times_us, times_us - rates * tasks.recording_us[chosen]),
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
    return np.minimum(
        _DEAREST.value, np.divide(excess_us, noted_us, out=np.zeros(len(noted_us)), where=possible)
    )


def _growth(lacking_us: Times, work_us: Times) -> Times:
    """The factor, within its limit, on the operators of each part that makes up for the missing time."""
    possible = (lacking_us > 0) & (work_us > 0)
    return 1 + np.minimum(
        _MOST_GROWTH.value, np.divide(lacking_us, work_us, out=np.zeros(len(work_us)), where=possible)
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


_LEAST_ITERATIONS = Constant.at(3, "an assumption: fewer iterations show no outlier")
_HELD_UP = Constant.at(3.0, "an assumption: an outlier exceeds the median over the iterations by this factor")
_HELD_UP_US = Constant.at(
    500.0,
    "an assumption: and by this time, in µs. Few iterations are recorded: one delay of 15 ms can add a tenth to them",
)


def steadied(graph: Graph) -> Graph:
    """The graph with delayed tasks, and the Python time behind them, set to the median over the iterations.

    Tasks are compared if their name, module, phase, lane and order within the iteration agree. With fewer
    than three iterations, nothing changes.
    """
    if len(graph.iterations) < _LEAST_ITERATIONS.value:
        return graph
    alike = _alike(graph)
    return graph.with_times(_settled(graph.durations, alike), _settled(graph.gaps, alike))


def _alike(graph: Graph) -> Indices:
    """The number of the comparison group of each task."""
    tasks = graph.tasks
    kinds = _groups(tasks.name, tasks.module, tasks.phase, tasks.lane)
    of_iteration = _groups(kinds, tasks.iteration)
    place = np.empty(len(graph), np.int64)
    order = np.argsort(of_iteration, kind="stable")
    _, first, counts = np.unique(of_iteration[order], return_index=True, return_counts=True)
    place[order] = np.arange(len(graph)) - np.repeat(first, counts)
    return _groups(kinds, place)


def _groups(*columns: npt.NDArray[Any]) -> Indices:
    """The number of the group of each row; rows of a group agree in all columns."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        lowest = int(column.min(initial=0))
        width = int(column.max(initial=0)) - lowest + 1
        _, numbers = np.unique(numbers * width + (column.astype(np.int64) - lowest), return_inverse=True)
    return numbers


def _settled(times_us: Times, group: Indices) -> Times:
    order = np.lexsort((times_us, group))
    _, first, counts = np.unique(group[order], return_index=True, return_counts=True)
    middle = times_us[order[first + (counts - 1) // 2]]
    usual_us, known = middle[group], counts[group] >= _LEAST_ITERATIONS.value
    held_up = known & (times_us > _HELD_UP.value * usual_us + _HELD_UP_US.value)
    return np.where(held_up, usual_us, times_us)


_UNHELD = Constant.at(
    0.1,
    "quantile of a part's bare times that is the host's own: waiting for a GPU or a full queue only adds to it",
)
_ATTACHED = Constant.at(
    0.75,
    "host time without over with a recorder of kernels that stayed attached: the backward pass takes 13.8 ms before "
    "and 18.5 ms after the recording",
    ("benchmarks/gpu_models_training.py",),
    machine="a virtual machine with an NVIDIA H200",
)
_MEASURED = (Part.LOADER, Part.BACKWARD, Part.OPTIMIZER)
_LEAST = Constant.at(0.1, "an assumption: the least share of the recorded host time that is its own")
_NEAR = Constant.at(
    0.01, "an assumption: a simulated time as near as this to the measured one is not improved"
)
_MOST_UNSURE = Constant.at(0.5, "an assumption: a factor less certain than that tells nothing of the host")
_SEARCHED = Constant.at(6, "an assumption: so many simulations find the factor")


@dataclass(frozen=True, slots=True)
class OwnHost:
    """The factors by part that scale a recorded host to its own time, and their uncertainty.

    ``parts`` is empty if no thread ran ahead of a GPU.
    """

    parts: tuple[float, ...] = ()
    spread: Interval = field(default_factory=lambda: Interval.exact(1.0))

    def applied(self, graph: Graph, lane: str) -> Graph:
        """The graph with the host's own time."""
        return _with_parts(graph, lane, np.array(self.parts)) if self.parts else graph


@dataclass(frozen=True, slots=True)
class _Observed:
    """An observed time in ms that grows with the host's time, and this time as a function of a factor on the host.

    ``low`` and ``high`` are the ends of its scatter and ``most`` is the largest possible factor. ``quicker``
    is a factor on the low end: it removes the time that the observation itself adds to the host.
    """

    ms: float
    low: float
    high: float
    of: Callable[[float], float]
    most: float
    quicker: float = 1.0


def own_host(profile: Profile, waiting: Graph, running: Graph, lane: str) -> OwnHost:
    """The host of a script that runs ahead of its GPU, as it is without a recorder.

    ``running`` is the graph of that run, ``waiting`` the recorded one, in which each iteration begins with an idle GPU.

    The bare time of each part is an upper limit for the host: waiting only adds to it, and recording never
    makes it faster. For a part that waits, this limit is not close. Iterations that begin with an idle GPU
    narrow it further, by the thread's time in them. In profiles of earlier versions, the difference between
    these iterations and those of a long run is used: the time until the GPU has enough work.
    """
    idle = profile.from_idle
    parts = _part_factors(running, lane, profile.times if idle is None else idle)
    recorded_ms = _lane_ms(running, lane)
    waiting, running = (_with_parts(one, lane, parts) for one in (waiting, running))
    own_ms = _lane_ms(running, lane)
    factor = None
    if own_ms > 0 and len(ending_waits(waiting, lane)):
        if idle is not None and idle.host_ms:
            factor = _factor(_host_from_idle(idle.host_ms, waiting, lane, recorded_ms / own_ms))
        elif len(profile.paired_ms) == len(profile.trace.iterations):
            factor = _factor(_lead(profile, waiting, running, lane, own_ms))
    if factor is None or (idle is None and factor.value >= 1):
        # Nothing waits in the parts, so their bare times are more accurate.
        return OwnHost(tuple(parts.tolist()), _scatter(profile.times, own_ms))
    slowest = max(1.0, median(profile.times.steps_ms) / (factor.value * own_ms))
    spread = Interval(1.0, factor.low / factor.value, min(slowest, factor.high / factor.value))
    return OwnHost(tuple((parts * factor.value).tolist()), spread)


def _part_factors(graph: Graph, lane: str, bare: BareTimes) -> Times:
    """The factor that scales each part of the recorded host to the lowest of its bare times; at most 1."""
    tasks, took = graph.tasks, graph.durations + graph.gaps
    chosen = np.flatnonzero(tasks.lane == tasks.lane_code(lane))
    recorded_ms = np.bincount(parts_of(tasks)[chosen], took[chosen], len(PARTS)) / 1e3 / _count(graph)
    own_ms = np.zeros(len(PARTS))
    for one, samples in zip(_MEASURED, (bare.data_ms, bare.backward_ms, bare.optimizer_ms), strict=True):
        own_ms[PARTS.index(one)] = np.quantile(samples, _UNHELD.value) if samples else 0.0
    known = (own_ms > 0) & (recorded_ms > 0)
    # The code that fetches batches differs from the code that launches work. Parts without a timing launch
    # work, too.
    launching = known & (np.arange(len(PARTS)) != PARTS.index(Part.LOADER))
    rest = own_ms[launching].sum() / recorded_ms[launching].sum() if launching.any() else 1.0
    return np.minimum(1.0, np.divide(own_ms, recorded_ms, out=np.full(len(PARTS), rest), where=known))


def _with_parts(graph: Graph, lane: str, factors: Times) -> Graph:
    chosen = np.flatnonzero(graph.tasks.lane == graph.tasks.lane_code(lane))
    return scale(graph, chosen, factors[parts_of(graph.tasks)[chosen]], gaps=True)


def _host_from_idle(host_ms: Sequence[float], waiting: Graph, lane: str, most: float) -> _Observed:
    """The thread's time until it waits for the GPU at the end of an iteration."""
    waits = ending_waits(waiting, lane)

    def reached_ms(factor: float) -> float:
        return _until_waiting_ms(simulate(scale_host_to(waiting, lane, factor)), waits, lane)

    return _Observed(median(host_ms), min(host_ms), max(host_ms), reached_ms, most)


def _until_waiting_ms(timeline: Timeline, waits: np.ndarray, lane: str) -> float:
    """The mean time over the iterations from the end of one iteration's wait to the start of the next wait, in ms."""
    tasks = timeline.graph.tasks
    mine = np.flatnonzero(tasks.lane == tasks.lane_code(lane))
    place = np.searchsorted(mine, waits)
    reached = np.where(place > 0, timeline.freed[mine[np.maximum(0, place - 1)]], 0.0)
    began = np.concatenate([[0.0], timeline.freed[waits[:-1]]])
    return float((reached - began).mean()) / 1e3


def _lead(profile: Profile, waiting: Graph, running: Graph, lane: str, own_ms: float) -> _Observed:
    """The additional time of an iteration that begins with an idle GPU, compared with one of a long run."""
    paired, steps = profile.paired_ms, profile.times.steps_ms
    found = median(paired) - median(steps)
    unsure = (max(paired) - min(paired) + max(steps) - min(steps)) / 2

    def lead_ms(factor: float) -> float:
        waited = simulate(scale_host_to(waiting, lane, factor)).iteration_ms(lane)
        return waited - steady_step_ms(scale_host_to(running, lane, factor), at_most=REPETITIONS)

    most = min(1.0, median(steps) / own_ms)
    return _Observed(found, found - unsure, found + unsure, lead_ms, most, _ATTACHED.value)


def _factor(seen: _Observed) -> Interval | None:
    """The factor on the host that reproduces the observation; None if the observation hardly depends on it."""
    low, high = min(_LEAST.value, seen.most), seen.most
    at_low, at_high = seen.of(low), seen.of(high)
    slope = (at_high - at_low) / (high - low) if high > low else 0.0
    if slope <= 0:
        return None
    value = _solved(seen.of, seen.ms, (low, at_low), (high, at_high))
    below, above = (max(0.0, one) / slope for one in (seen.ms - seen.low, seen.high - seen.ms))
    if below + above > 2 * _MOST_UNSURE.value * seen.most:
        return None
    return Interval(value, max(low, value - below) * seen.quicker, min(high, value + above))


def _solved(
    of: Callable[[float], float], wanted: float, first: tuple[float, float], last: tuple[float, float]
) -> float:
    """The argument at which an increasing function has the wanted value, between two known points."""
    (low, at_low), (high, at_high) = first, last
    if wanted <= at_low:
        return low
    if wanted >= at_high:
        return high
    middle = low
    for _ in range(int(_SEARCHED.value)):
        part = min(0.9, max(0.1, (wanted - at_low) / (at_high - at_low)))
        middle = low + part * (high - low)
        at = of(middle)
        if abs(at - wanted) <= _NEAR.value * abs(wanted):
            break
        if at < wanted:
            low, at_low = middle, at
        else:
            high, at_high = middle, at
    return middle


def _scatter(bare: BareTimes, own_ms: float) -> Interval:
    """The spread if only bare times are known: the host is not slower than the step."""
    sums = np.sum([bare.data_ms, bare.backward_ms, bare.optimizer_ms], axis=0)
    least_ms = float(np.quantile(sums, _UNHELD.value)) if len(sums) else 0.0
    if least_ms <= 0 or own_ms <= 0:
        return Interval.exact(1.0)
    slower = min(float(np.max(sums)) / least_ms, median(bare.steps_ms) / own_ms)
    return Interval(1.0, 1.0, max(1.0, slower))


def _lane_ms(graph: Graph, lane: str) -> float:
    mine = graph.tasks.lane == graph.tasks.lane_code(lane)
    return float((graph.durations + graph.gaps)[mine].sum()) / 1e3 / _count(graph)


def _count(graph: Graph) -> int:
    return max(1, len(graph.iterations))
