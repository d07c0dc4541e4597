"""Times of the script's operators from trial iterations: other thread counts, 16 bits, other batch sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from skyline.graph.build import main_lane
from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.task import PHASE
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import Profile
from skyline.trace.record import Phase, RecordKind, Trace
from skyline.trace.trial import Trial
from skyline.whatif.constant import Constant

ExecutionKey = tuple[int, str]
"""An execution configuration: the number of threads, and the number format of forward passes (empty: the
script's own)."""
_Place = tuple[Phase, str, str, int]
"""Phase, module and name of an operator, and its number among the operators that share them in an iteration."""
_LEAST_KNOWN = 0.7
"""Least share of an iteration's time in operators that another configuration has as well; below it, the
configuration is another computation."""
_MOST_APART = 1.5
"""A trial counts as disturbed if its unchanged script was slower or faster by this factor than when it was timed."""
_NORMAL_DEVIATION = Constant.at(
    1.4826, "standard deviation of a normal distribution over its median deviation"
)
_NINE_IN_TEN = Constant.at(1.645, "deviations to either side that hold nine in ten of a normal distribution")
_MOST_POWER = Constant.at(2.0, "pairs of samples: no operator of an iteration grows faster with the batch")
_PYTHON_LESS, _PYTHON_MORE = 0.6, 1.8
"""Bounds for the change of Python's time with the configuration: neither threads nor formats divide it."""


@dataclass(frozen=True, slots=True, eq=False)
class TriedIterations:
    """The time of every record by execution configuration, in µs; NaN if unknown.

    ``elsewhere_us`` has the same times by batch size, given as a multiple of the script's own. ``name_codes``
    are the codes of the records' names by ``codes``. ``python_us`` is the interpreter's time in an iteration,
    by phase. ``spreads`` are the relative uncertainties of iterations in a configuration, from the rounds
    that they were timed in.
    """

    threads: int
    times_us: dict[ExecutionKey, Times]
    elsewhere_us: dict[float, dict[ExecutionKey, Times]]
    python_us: dict[ExecutionKey, dict[Phase, float]]
    codes: dict[str, int]
    name_codes: Indices
    spreads: dict[ExecutionKey, float] = field(default_factory=dict[ExecutionKey, float])

    @property
    def standing(self) -> ExecutionKey:
        """The script's own configuration."""
        return self.threads, ""

    @property
    def other_threads(self) -> int | None:
        """The other number of threads that was tried, if any."""
        return next((threads for threads, _ in self.times_us if threads != self.threads), None)

    def factors(
        self, graph: Graph, chosen: Indices, before: ExecutionKey, after: ExecutionKey, larger: float = 1.0
    ) -> Times:
        """The ratio of each chosen task's time in configuration ``after`` to that in ``before``; NaN if unknown.

        The batch is ``larger`` times the script's own, or the nearest one that was tried. The ratio is
        unknown for a task that a change has put in the place of another.
        """
        unknown = np.full(len(chosen), np.nan)
        if before not in self.times_us or after not in self.times_us or not len(chosen):
            return unknown
        ratios = self._ratios(before, after, larger)
        rows = graph.tasks.origin[chosen]
        return np.where(self._same(graph, chosen) & np.isfinite(ratios[rows]), ratios[rows], unknown)

    def growth(self, graph: Graph, larger: float) -> Times:
        """The ratio of each task's time in a ``larger`` batch to that in the script's own; NaN if not tried.

        Beyond the tried batches, each operator continues to grow as between the two outermost: attention over
        the samples of a batch grows with its square, a layer in proportion to it. ``graph`` has a task for
        each operator, as they were recorded or with changes made.
        """
        unknown = np.full(len(graph), np.nan)
        if larger == 1.0 or not self.elsewhere_us:
            return unknown
        standing = {1.0: self.times_us} | self.elsewhere_us
        tried = {size: times[self.standing] for size, times in standing.items()}
        with np.errstate(divide="ignore", invalid="ignore"):
            within = self.beyond(larger) == 1.0
            times_us = _between(tried, larger) if within else _outside(tried, larger)
            ratios = (times_us / self.times_us[self.standing])[graph.tasks.origin]
        known = self._same(graph, np.arange(len(graph))) & np.isfinite(ratios) & (ratios > 0)
        return np.where(known, ratios, unknown)

    def beyond(self, larger: float) -> float:
        """The ratio of a batch ``larger`` times as large to the nearest batch for which ``factors`` has values."""
        tried = [1.0, *self.elsewhere_us]
        return larger / min(max(tried), max(min(tried), larger))

    def python_factors(self, graph: Graph, before: ExecutionKey, after: ExecutionKey) -> Times:
        """The ratio of the Python time after each task in configuration ``after`` to that in ``before``."""
        found = np.ones(len(graph))
        if before not in self.times_us or after not in self.times_us:
            return found
        for phase, us in self.python_us[before].items():
            if us > 0 and phase is not Phase.DATA:
                ratio = self.python_us[after].get(phase, us) / us
                found[graph.tasks.phase == PHASE[phase]] = min(_PYTHON_MORE, max(_PYTHON_LESS, ratio))
        return found

    def settled(self, graph: Graph) -> Graph:
        """The recorded graph with times from the trial of the script's own configuration.

        The iterations of the graph come after one that was recorded with shapes and memory, and are not yet
        typical.
        """
        everything = np.arange(len(graph))
        times_us = self.times_us[self.standing][graph.tasks.origin]
        known = self._same(graph, everything) & np.isfinite(times_us) & (graph.durations > 0)
        return graph.with_times(durations=np.where(known, times_us, graph.durations))

    def _ratios(self, before: ExecutionKey, after: ExecutionKey, larger: float) -> Times:
        """The ratios by record, for the tried batch sizes nearest to ``larger``."""
        with np.errstate(divide="ignore", invalid="ignore"):
            tried = {
                growth: times[after] / times[before]
                for growth, times in ((1.0, self.times_us), *self.elsewhere_us.items())
                if before in times and after in times
            }
            between = _between(tried, larger)
        # Operators that another batch does not have, or that take no time there, keep the ratio of the
        # script's own batch.
        return np.where(np.isfinite(between) & (between > 0), between, tried[1.0])

    def _same(self, graph: Graph, chosen: Indices) -> npt.NDArray[np.bool_]:
        """Flags of tasks that are still the operator that was recorded."""
        rows = graph.tasks.origin[chosen]
        here = np.array([self.codes.get(name, -1) for name in graph.tasks.names])[graph.tasks.name[chosen]]
        return (rows >= 0) & (here == self.name_codes[rows])


def tried_iterations(profile: Profile) -> TriedIterations | None:
    """The tried iterations of a profile; None if no other configuration with the script's operators was tried."""
    threads = profile.environment.intraop_threads
    by_size: dict[int | None, list[Trial]] = {}
    for trial in profile.trials:
        if trial.operators:
            by_size.setdefault(trial.choices.batch_size, []).append(trial)
    by_size = {
        size: _own_config_first(trials) for size, trials in by_size.items() if _is_steady(profile, trials)
    }
    own = by_size.pop(None, [])
    found = _by_place(own, threads) if own else {}
    if len(found) < 2:
        return None
    places = _RecordPlaces.of(profile.trace)
    codes = {name: code for code, name in enumerate(dict.fromkeys(one.name for one in profile.trace.records))}
    return TriedIterations(
        threads,
        _by_record(found, places),
        {
            batch_size / profile.batch_size: _by_record(_by_place(trials, threads), places)
            for batch_size, trials in by_size.items()
            if profile.batch_size and batch_size is not None
        },
        {_key(trial, threads): trial.python_us for trial in own},
        codes,
        np.array([codes[record.name] for record in profile.trace.records], np.int64),
        {_key(trial, threads): _spread(trial.ratios) for trial in own},
    )


def _spread(ratios: Sequence[float]) -> float:
    """Half of the 90 % range of the median over the rounds, relative to that median; 0 without rounds.

    It comes from the median deviation, so that a disturbed round does not count more than others.
    """
    if len(ratios) < 2:
        return 0.0
    middle = median(ratios)
    deviation = _NORMAL_DEVIATION.value * median([abs(ratio - middle) for ratio in ratios])
    return _NINE_IN_TEN.value * deviation / math.sqrt(len(ratios)) / middle


def _key(trial: Trial, threads: int) -> ExecutionKey:
    return trial.choices.threads or threads, trial.choices.number_format


def _is_own_config(trial: Trial) -> bool:
    return trial.choices.threads is None and not trial.choices.number_format


def _own_config_first(trials: Iterable[Trial]) -> list[Trial]:
    return sorted(trials, key=lambda trial: not _is_own_config(trial))


def _is_steady(profile: Profile, trials: Sequence[Trial]) -> bool:
    """True if the script's own configuration took about as long when recorded as when timed, at this batch size."""
    unchanged = next((one for one in trials if _is_own_config(one)), None)
    if unchanged is None:
        return False
    # The profile itself has the most iterations of the script's own batch.
    times = profile.times if unchanged.choices.batch_size is None else unchanged.times
    timed_ms = times.steps_ms
    return bool(timed_ms) and (
        1 / _MOST_APART <= unchanged.recorded_us / 1e3 / median(timed_ms) <= _MOST_APART
    )


def _by_place(trials: Sequence[Trial], threads: int) -> dict[ExecutionKey, dict[_Place, float]]:
    """The times of the first trial's operators by configuration; the first trial has the script's own configuration."""
    first, *others = trials
    keys = _places((one.phase, one.module, one.name) for one in first.operators)
    standing = {place: one.took_us for place, one in zip(keys, first.operators, strict=True)}
    found = {_key(first, threads): standing}
    for trial in others:
        times = _beside(standing, trial)
        if times is not None:
            found[_key(trial, threads)] = times
    return found


def _by_record(
    found: dict[ExecutionKey, dict[_Place, float]], places: _RecordPlaces
) -> dict[ExecutionKey, Times]:
    return {config: places.times_us(times) for config, times in found.items()}


def _between(tried: dict[float, Times], larger: float) -> Times:
    """The figures for a batch size, interpolated by the power law through the two nearest tried sizes."""
    smaller = max((one for one in tried if one <= larger), default=min(tried))
    greater = min((one for one in tried if one >= larger), default=max(tried))
    weight = math.log(larger / smaller) / math.log(greater / smaller) if greater > smaller else 0.0
    return tried[smaller] ** (1 - weight) * tried[greater] ** weight


def _outside(tried: dict[float, Times], larger: float) -> Times:
    """The figures for a batch size beyond the tried ones, extrapolated by the power law of the two nearest."""
    edge, inner = sorted(tried, key=lambda size: abs(math.log(size / larger)))[:2]
    power = np.log(tried[edge] / tried[inner]) / math.log(edge / inner)
    return tried[edge] * (larger / edge) ** np.clip(power, 0.0, _MOST_POWER.value)


def _beside(standing: dict[_Place, float], trial: Trial) -> dict[_Place, float] | None:
    """The times that the operators of the script's own configuration take in a trial; None if too few are in it.

    The time of operators that only the trial has, such as casts, counts for the operator before them.
    """
    times: dict[_Place, float] = dict.fromkeys(standing, 0.0)
    last: _Place | None = None
    waiting_us = known_us = 0.0
    keys = _places((one.phase, one.module, one.name) for one in trial.operators)
    for place, one in zip(keys, trial.operators, strict=True):
        if place in times:
            times[place] += one.took_us + waiting_us
            known_us += standing[place]
            last, waiting_us = place, 0.0
        elif last is not None:
            times[last] += one.took_us
        else:
            waiting_us += one.took_us
    return times if known_us >= _LEAST_KNOWN * sum(standing.values()) else None


def _places(keys: Iterable[tuple[Phase, str, str]]) -> list[_Place]:
    seen: dict[tuple[Phase, str, str], int] = {}
    found: list[_Place] = []
    for key in keys:
        number = seen.get(key, 0)
        found.append((*key, number))
        seen[key] = number + 1
    return found


@dataclass(frozen=True, slots=True)
class _RecordPlaces:
    """The place of each record in its iteration, as a number; -1 for Python, and for the work of other threads."""

    numbers: dict[_Place, int]
    of_record: Indices

    @classmethod
    def of(cls, trace: Trace) -> _RecordPlaces:
        """The places of the records of a trace."""
        lane = main_lane(trace)
        rows: dict[int, list[int]] = {}
        for row in sorted(range(len(trace.records)), key=lambda row: trace.records[row].start_us):
            record = trace.records[row]
            if record.lane == lane and record.kind is not RecordKind.PYTHON:
                rows.setdefault(record.iteration, []).append(row)
        numbers: dict[_Place, int] = {}
        found = np.full(len(trace.records), -1, np.int64)
        for of_iteration in rows.values():
            records = [trace.records[row] for row in of_iteration]
            keys = (
                (one.phase, trace.modules[one.module] if one.module >= 0 else "", one.name) for one in records
            )
            found[of_iteration] = [numbers.setdefault(place, len(numbers)) for place in _places(keys)]
        return cls(numbers, found)

    def times_us(self, by_place: dict[_Place, float]) -> Times:
        """The time of each record from the times of places; NaN if unknown."""
        # The last element is that of records without a place, whose number is -1.
        times = np.full(len(self.numbers) + 1, np.nan)
        for place, us in by_place.items():
            number = self.numbers.get(place)
            if number is not None:
                times[number] = us
        return times[self.of_record]
