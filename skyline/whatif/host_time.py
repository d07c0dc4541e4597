"""The host's own time: recording inflates it, and a thread that is far ahead of its GPU waits in launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from skyline.graph.calibrate import scale_host_to
from skyline.graph.column import Times
from skyline.graph.graph import Graph, scale
from skyline.graph.launching import ending_waits
from skyline.graph.part import PARTS, Part, parts_of
from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.simulate.engine import Timeline, simulate, steady_step_ms
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes
from skyline.whatif.calibration import REPETITIONS
from skyline.whatif.constant import Constant

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
_ROUNDS = Constant.at(6, "an assumption: so many simulations find the factor")


@dataclass(frozen=True, slots=True)
class OwnHost:
    """Factors that bring a recorded host to its own time, by part, and how much quicker or slower it may be.

    ``parts`` is empty where nothing ran ahead of a GPU.
    """

    parts: tuple[float, ...] = ()
    spread: Interval = field(default_factory=lambda: Interval.exact(1.0))

    def applied(self, graph: Graph, lane: str) -> Graph:
        """The graph with the host's own time."""
        return _with_parts(graph, lane, np.array(self.parts)) if self.parts else graph


@dataclass(frozen=True, slots=True)
class _Observed:
    """A time that grows with the host's, in ms, and its function of a factor on the host.

    ``low`` and ``high`` are the ends of its scatter, ``most`` the largest factor possible, and ``quicker`` a factor
    on the low end for what the observation adds to the host.
    """

    ms: float
    low: float
    high: float
    of: Callable[[float], float]
    most: float
    quicker: float = 1.0


def own_host(profile: Profile, waiting: Graph, running: Graph, lane: str) -> OwnHost:
    """The host of a script that runs ahead of its GPU, without a recorder.

    ``running`` is the graph of that run, ``waiting`` the recorded one, in which each iteration begins with an idle GPU.

    The bare time of each part limits the host: waiting only adds to it, and recording never makes it quicker. Of a
    part that waits it is no close limit. Iterations that began with an idle GPU show the rest: the thread's time in
    them, or, in profiles of earlier versions, by how much they are longer than in a run that goes on. That is the time
    until the GPU has enough to do.
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
        # Nothing waits in the parts: their own bare times tell more.
        return OwnHost(tuple(parts.tolist()), _scatter(profile.times, own_ms))
    slowest = max(1.0, median(profile.times.steps_ms) / (factor.value * own_ms))
    spread = Interval(1.0, factor.low / factor.value, min(slowest, factor.high / factor.value))
    return OwnHost(tuple((parts * factor.value).tolist()), spread)


def _part_factors(graph: Graph, lane: str, bare: BareTimes) -> Times:
    """The factor of each part that brings the recorded host to the least of its bare times; at most 1."""
    tasks, took = graph.tasks, graph.durations + graph.gaps
    chosen = np.flatnonzero(tasks.lane == tasks.lane_code(lane))
    recorded_ms = np.bincount(parts_of(tasks)[chosen], took[chosen], len(PARTS)) / 1e3 / _count(graph)
    own_ms = np.zeros(len(PARTS))
    for one, samples in zip(_MEASURED, (bare.data_ms, bare.backward_ms, bare.optimizer_ms), strict=True):
        own_ms[PARTS.index(one)] = np.quantile(samples, _UNHELD.value) if samples else 0.0
    known = (own_ms > 0) & (recorded_ms > 0)
    # Batches are fetched by other code than launches work; what was not timed launches work, too.
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
    """The mean over the iterations, from the end of one iteration's wait until the thread comes to the next."""
    tasks = timeline.graph.tasks
    mine = np.flatnonzero(tasks.lane == tasks.lane_code(lane))
    place = np.searchsorted(mine, waits)
    reached = np.where(place > 0, timeline.freed[mine[np.maximum(0, place - 1)]], 0.0)
    began = np.concatenate([[0.0], timeline.freed[waits[:-1]]])
    return float((reached - began).mean()) / 1e3


def _lead(profile: Profile, waiting: Graph, running: Graph, lane: str, own_ms: float) -> _Observed:
    """By how much an iteration that begins with an idle GPU is longer than one of a run that goes on."""
    paired, steps = profile.paired_ms, profile.times.steps_ms
    found = median(paired) - median(steps)
    unsure = (max(paired) - min(paired) + max(steps) - min(steps)) / 2

    def lead_ms(factor: float) -> float:
        waited = simulate(scale_host_to(waiting, lane, factor)).iteration_ms(lane)
        return waited - steady_step_ms(scale_host_to(running, lane, factor), at_most=REPETITIONS)

    most = min(1.0, median(steps) / own_ms)
    return _Observed(found, found - unsure, found + unsure, lead_ms, most, _ATTACHED.value)


def _factor(seen: _Observed) -> Interval | None:
    """The factor on the host that gives what was observed; None where that hardly depends on it."""
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
    """Where a growing function has the wanted value, between two points of it."""
    (low, at_low), (high, at_high) = first, last
    if wanted <= at_low:
        return low
    if wanted >= at_high:
        return high
    middle = low
    for _ in range(int(_ROUNDS.value)):
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
    """The spread where only bare times are known: the host is not slower than the step."""
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
