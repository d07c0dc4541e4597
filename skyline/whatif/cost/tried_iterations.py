"""What the operators of the script take on other threads and in 16 bits, seen in iterations that were tried."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from skyline.graph.build import main_lane
from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.tasks import PHASE
from skyline.trace.iteration_trial import AS_IT_STANDS, IterationTrial
from skyline.trace.phase import Phase
from skyline.trace.profile import Profile
from skyline.trace.record import RecordKind, Trace

ExecutionKey = tuple[int, str]
"""A number of threads, and the number format of the forward passes."""
_Place = tuple[Phase, str, str, int]
"""Phase, module, name, and the how many-eth of these in its iteration."""
_LEAST_KNOWN = 0.7
"""Of an iteration's time, in operators that the other manner has as well: with less it is another computation."""
_MOST_APART = 1.5
"""So far what was tried may be from what was timed before; beyond, something else was under way."""
_PYTHON_LESS, _PYTHON_MORE = 0.6, 1.8
"""Bounds of how Python's time may change with the manner: it is no work that threads or formats divide."""


@dataclass(frozen=True, slots=True, eq=False)
class TriedIterations:
    """By manner, the µs of every record; not a number where it is not known.

    ``elsewhere_us`` is the same in batches so many times as large. ``name_codes`` are those of the records, by
    ``codes`` of names; ``python_us`` is what the interpreter takes in an iteration, by phase.
    """

    threads: int
    times_us: dict[ExecutionKey, Times]
    elsewhere_us: dict[float, dict[ExecutionKey, Times]]
    python_us: dict[ExecutionKey, dict[Phase, float]]
    codes: dict[str, int]
    name_codes: Indices

    @property
    def standing(self) -> ExecutionKey:
        """The script's own manner."""
        return self.threads, AS_IT_STANDS

    @property
    def other_threads(self) -> int | None:
        """The other number of threads that was tried, if there was one."""
        return next((threads for threads, _ in self.times_us if threads != self.threads), None)

    def factors(
        self, graph: Graph, chosen: Indices, before: ExecutionKey, after: ExecutionKey, larger: float = 1.0
    ) -> Times:
        """By chosen task, its time in one manner over that in another; not a number where it is not known.

        In a batch ``larger`` times as large as the script's own, or as near to that as was tried. A task that a
        change has put in the place of another is not known.
        """
        unknown = np.full(len(chosen), np.nan)
        if before not in self.times_us or after not in self.times_us or not len(chosen):
            return unknown
        ratios = self._ratios(before, after, larger)
        rows = graph.tasks.origin[chosen]
        return np.where(self._same(graph, chosen) & np.isfinite(ratios[rows]), ratios[rows], unknown)

    def growth(self, graph: Graph, larger: float) -> Times:
        """By task, its time in such a batch over that in the script's own; not a number where that was not tried.

        ``graph`` has a task for each operator, as they were recorded or with changes made.
        """
        unknown = np.full(len(graph), np.nan)
        if larger == 1.0 or self.beyond(larger) != 1.0:
            return unknown
        standing = {1.0: self.times_us} | self.elsewhere_us
        with np.errstate(divide="ignore", invalid="ignore"):
            times_us = _between({size: times[self.standing] for size, times in standing.items()}, larger)
            ratios = (times_us / self.times_us[self.standing])[graph.tasks.origin]
        known = self._same(graph, np.arange(len(graph))) & np.isfinite(ratios) & (ratios > 0)
        return np.where(known, ratios, unknown)

    def beyond(self, larger: float) -> float:
        """How many times as large such a batch is as the one nearest to it for which ``factors`` speaks."""
        tried = [1.0, *self.elsewhere_us]
        return larger / min(max(tried), max(min(tried), larger))

    def python_factors(self, graph: Graph, before: ExecutionKey, after: ExecutionKey) -> Times:
        """By task, what Python behind it takes in one manner over that in another."""
        found = np.ones(len(graph))
        if before not in self.times_us or after not in self.times_us:
            return found
        for phase, us in self.python_us[before].items():
            if us > 0 and phase is not Phase.DATA:
                ratio = self.python_us[after].get(phase, us) / us
                found[graph.tasks.phase == PHASE[phase]] = min(_PYTHON_MORE, max(_PYTHON_LESS, ratio))
        return found

    def settled(self, graph: Graph) -> Graph:
        """The recorded graph with the times of the script's own manner as they were tried.

        The iterations that were recorded first come right behind one in which shapes and memory were noted as well,
        and are not yet as all others are.
        """
        everything = np.arange(len(graph))
        times_us = self.times_us[self.standing][graph.tasks.origin]
        known = self._same(graph, everything) & np.isfinite(times_us) & (graph.durations > 0)
        return graph.with_times(durations=np.where(known, times_us, graph.durations))

    def _ratios(self, before: ExecutionKey, after: ExecutionKey, larger: float) -> Times:
        """By record, as near to such a batch as was tried."""
        with np.errstate(divide="ignore", invalid="ignore"):
            tried = {
                growth: times[after] / times[before]
                for growth, times in ((1.0, self.times_us), *self.elsewhere_us.items())
                if before in times and after in times
            }
            between = _between(tried, larger)
        # What another batch does by other operators, or in no time, is known of the script's own alone.
        return np.where(np.isfinite(between) & (between > 0), between, tried[1.0])

    def _same(self, graph: Graph, chosen: Indices) -> npt.NDArray[np.bool_]:
        """Whether each task is still the operator that was recorded."""
        rows = graph.tasks.origin[chosen]
        here = np.array([self.codes.get(name, -1) for name in graph.tasks.names])[graph.tasks.name[chosen]]
        return (rows >= 0) & (here == self.name_codes[rows])


def tried_iterations(profile: Profile) -> TriedIterations | None:
    """None where nothing was tried, or nothing but the script as it stands could be told again."""
    if not profile.iteration_trials:
        return None
    by_size: dict[int | None, list[IterationTrial]] = {}
    for trial in profile.iteration_trials:
        by_size.setdefault(trial.batch_size, []).append(trial)
    by_size = {size: trials for size, trials in by_size.items() if _is_steady(profile, trials[0])}
    own = by_size.pop(None, [])
    found = _by_place(own) if own else {}
    if len(found) < 2:
        return None
    elsewhere = {size: _by_place(trials) for size, trials in by_size.items() if size is not None}
    places = _places_of_records(profile.trace)
    codes = {name: code for code, name in enumerate(dict.fromkeys(one.name for one in profile.trace.records))}
    return TriedIterations(
        own[0].threads,
        _by_record(found, places),
        {
            batch_size / profile.batch_size: _by_record(times, places)
            for batch_size, times in elsewhere.items()
            if profile.batch_size
        },
        {(trial.threads, trial.number_format): trial.python_us for trial in own},
        codes,
        np.array([codes[record.name] for record in profile.trace.records], np.int64),
    )


def _is_steady(profile: Profile, standing: IterationTrial) -> bool:
    """Whether the script as it stands took in its trial what it took when it was timed, in this batch."""
    if standing.batch_size is None:
        timed_ms = profile.times.steps_ms
    else:
        points = (point for point in profile.points if point.batch_size == standing.batch_size)
        timed_ms = next((point.times.steps_ms for point in points), ())
    return bool(timed_ms) and 1 / _MOST_APART <= standing.took_us / 1e3 / median(timed_ms) <= _MOST_APART


def _by_place(trials: Sequence[IterationTrial]) -> dict[ExecutionKey, dict[_Place, float]]:
    """By manner, what the operators of the first trial, of the script as it stands, take in each."""
    first, *others = trials
    keys = _places((one.phase, one.module, one.name) for one in first.works)
    standing = {place: work.took_us for place, work in zip(keys, first.works, strict=True)}
    found = {(first.threads, first.number_format): standing}
    for trial in others:
        times = _beside(standing, trial)
        if times is not None:
            found[trial.threads, trial.number_format] = times
    return found


def _by_record(
    found: dict[ExecutionKey, dict[_Place, float]], places: Sequence[_Place | None]
) -> dict[ExecutionKey, Times]:
    return {
        manner: np.array([times.get(place, np.nan) if place else np.nan for place in places])
        for manner, times in found.items()
    }


def _between(tried: dict[float, Times], larger: float) -> Times:
    """Of figures for batches of some sizes those for another: by the power law through the two on either side."""
    smaller = max((one for one in tried if one <= larger), default=min(tried))
    greater = min((one for one in tried if one >= larger), default=max(tried))
    weight = math.log(larger / smaller) / math.log(greater / smaller) if greater > smaller else 0.0
    return tried[smaller] ** (1 - weight) * tried[greater] ** weight


def _beside(standing: dict[_Place, float], trial: IterationTrial) -> dict[_Place, float] | None:
    """What the operators of the script as it stands take in a trial.

    What there is only in the trial, such as casts, counts with the operator before it.
    """
    times: dict[_Place, float] = dict.fromkeys(standing, 0.0)
    last: _Place | None = None
    waiting_us = known_us = 0.0
    keys = _places((work.phase, work.module, work.name) for work in trial.works)
    for place, work in zip(keys, trial.works, strict=True):
        if place in times:
            times[place] += work.took_us + waiting_us
            known_us += standing[place]
            last, waiting_us = place, 0.0
        elif last is not None:
            times[last] += work.took_us
        else:
            waiting_us += work.took_us
    return times if known_us >= _LEAST_KNOWN * sum(standing.values()) else None


def _places(keys: Iterable[tuple[Phase, str, str]]) -> list[_Place]:
    seen: Counter[tuple[Phase, str, str]] = Counter()
    found: list[_Place] = []
    for key in keys:
        found.append((*key, seen[key]))
        seen[key] += 1
    return found


def _places_of_records(trace: Trace) -> list[_Place | None]:
    """By record its place in its iteration; None for Python, and for what other threads did."""
    lane = main_lane(trace)
    found: list[_Place | None] = [None] * len(trace.records)
    rows: dict[int, list[int]] = {}
    for row in sorted(range(len(trace.records)), key=lambda row: trace.records[row].start_us):
        record = trace.records[row]
        if record.lane == lane and record.kind is not RecordKind.PYTHON:
            rows.setdefault(record.iteration, []).append(row)
    for of_iteration in rows.values():
        records = [trace.records[row] for row in of_iteration]
        keys = (
            (one.phase, trace.modules[one.module] if one.module >= 0 else "", one.name) for one in records
        )
        for row, place in zip(of_iteration, _places(keys), strict=True):
            found[row] = place
    return found
