"""Preparation of a profile for questions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from skyline.analysis.estimate import curve_points
from skyline.analysis.line_cost import LineCost
from skyline.analysis.line_parts import Place
from skyline.analysis.lines import line_costs
from skyline.analysis.rewrites import Rewrites
from skyline.findings.base import Finding
from skyline.findings.registry import find
from skyline.graph.build import main_lane
from skyline.interval import central_range, median
from skyline.rewrite.registry import problems as rewrite_problems
from skyline.simulate.critical_shares import CriticalPath
from skyline.simulate.engine import Timeline
from skyline.stage_failures import StageFailures
from skyline.trace.profile import Profile
from skyline.trace.record import PhaseTimes, Trace
from skyline.whatif.baseline import baseline
from skyline.whatif.question import CurvePoint
from skyline.whatif.registry import problems as whatif_problems
from skyline.whatif.subject import Subject

_UNSTEADY = 1.5


@dataclass(frozen=True, eq=False)
class Analysis:
    """A profile ready for questions, so that each question takes only a simulation.

    The parts of the report are computed on first access. A failing rule or curve adds a note. ``rewrites``
    caches which changes the code allows.
    """

    profile: Profile
    baseline: Subject
    rewrites: Rewrites = field(repr=False)

    def with_range_factors(self, factors: Mapping[str, float]) -> Analysis:
        """The same analysis with the ranges of answers widened by these factors, by what-if or combination."""
        if factors == self.baseline.range_factors:
            return self
        return replace(self, baseline=replace(self.baseline, range_factors=factors))

    @property
    def phases(self) -> PhaseTimes:
        """Time of each phase of the iteration, in ms."""
        return self.baseline.phases

    @property
    def timeline(self) -> Timeline:
        """The simulated timeline of the iterations."""
        return self.baseline.timeline

    @property
    def replay_error(self) -> float:
        """The relative error of the simulation of the recorded iterations."""
        return self.baseline.replay_error

    @property
    def critical_path(self) -> CriticalPath:
        """The shares of an iteration by what it waits for."""
        return self.baseline.critical_path

    @property
    def overhead(self) -> float:
        """The recorded iteration time divided by the unrecorded one."""
        return _overhead(self.profile, self.baseline.iteration_ms.value)

    @cached_property
    def _late(self) -> StageFailures:
        return StageFailures()

    @cached_property
    def lines(self) -> tuple[LineCost, ...]:
        """The cost of each line."""
        return line_costs(self.baseline)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all rules, highest cost first."""
        return find(self.baseline, self._late)

    @cached_property
    def curve(self) -> tuple[CurvePoint, ...]:
        """Time and memory as functions of the batch size."""
        return self._late.to("draw the curve over batch sizes", lambda: curve_points(self.baseline), ())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the measurement, and notes on the stages that failed."""
        start, profile = self.baseline, self.profile
        # Both may fail and then add a note.
        _ = self.findings, self.curve
        noted = self._late.to(
            "compute notes on lines",
            lambda: tuple(line_notes(profile, self.lines, start.iteration_ms.value)),
            (),
        )
        return (
            *profile.notes,
            *_notes(profile),
            *_crowded(profile),
            *noted,
            *start.curve.notes,
            *self._late.notes,
            *whatif_problems(),
            *rewrite_problems(),
        )


def analyse(profile: Profile) -> Analysis:
    """Build and calibrate the graph of a profile, and simulate it."""
    return Analysis(profile, baseline(profile), Rewrites(profile))


def _overhead(profile: Profile, iteration_ms: float) -> float:
    """The overhead of recording, relative to unrecorded iterations next to the recorded ones if there are any."""
    bare_ms = median(profile.paired_ms) if profile.paired_ms else iteration_ms
    return median(profile.recorded_ms) / bare_ms if profile.recorded_ms and bare_ms > 0 else 1.0


def _crowded(profile: Profile) -> tuple[str, ...]:
    load = profile.load
    if load is None or not load.busy:
        return ()
    kept = f"other programs used {load.others_cores:.1f} of {load.cores} cores"
    return (f"The machine was busy during this measurement: {kept}. Measure again when it is idle.",)


def _notes(profile: Profile) -> tuple[str, ...]:
    steps = profile.times.steps_ms
    if len(steps) > 1 and (spread := central_range(steps)) > _UNSTEADY:
        ratio = f"the longest iterations take {spread:.1f} times as long as the shortest"
        notes = [f"{ratio}: the speed of the machine or the amount of work varies"]
        if profile.recorded_ms:
            notes.append(
                "the overhead of recording is not conclusive: it compares recorded with unrecorded iterations, "
                "and iterations differ anyway"
            )
        return tuple(notes)
    return ()


_WORTH_SAYING = 0.05
"""Least share of the iteration for a note."""
_MOST = 3


def line_notes(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> tuple[str, ...]:
    """Notes on lines that do not run in every iteration, and on unrecorded work."""
    return (*_now_and_then(profile, lines, iteration_ms), *_in_workers(profile, lines, iteration_ms))


def _now_and_then(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> list[str]:
    """Notes on lines that ran in some of the recorded iterations only, and therefore get their average share."""
    trace = profile.trace
    count = len(trace.iterations)
    rare = [line for line in lines if line.file and line.frequency < 1 and count > 1]
    if not rare:
        return []
    times = _times_ms(trace, {(line.file, line.line) for line in rare})
    notes: list[str] = []
    for line in rare:
        ran = times.get((line.file, line.line), {})
        longest = max(ran.values(), default=0.0)
        if longest >= _WORTH_SAYING * iteration_ms:
            notes.append(
                f"{Path(line.file).name}:{line.line} ran in {len(ran)} of {count} recorded iterations, "
                f"{longest:.3g} ms at most: its cost per iteration depends on how often it runs."
            )
    return notes[:_MOST]


def _times_ms(trace: Trace, wanted: Collection[Place]) -> dict[Place, dict[int, float]]:
    """The recorded time of these lines on the script's own thread, by iteration, in one pass over all records."""
    lane = main_lane(trace)
    places = {
        index: place for index, row in enumerate(trace.lines) if (place := (row.file, row.line)) in wanted
    }
    times: dict[Place, dict[int, float]] = {}
    for record in trace.records:
        place = places.get(record.line)
        if place is not None and record.lane == lane:
            spent = times.setdefault(place, {})
            spent[record.iteration] = spent.get(record.iteration, 0.0) + record.duration_us / 1e3
    return times


def _in_workers(profile: Profile, lines: Sequence[LineCost], iteration_ms: float) -> list[str]:
    workers = max((loader.num_workers for loader in profile.loaders), default=0)
    waiting = sum(line.data_ms for line in lines)
    if not workers or waiting < _WORTH_SAYING * iteration_ms:
        return []
    count = f"{workers} worker process{'es' if workers > 1 else ''}"
    return [
        (
            f"The batches come from {count}, whose lines are not recorded: the loop's wait for them counts for "
            "the line that fetches the next batch. To see the dataset's own lines, profile with num_workers=0."
        )
    ]
