"""Preparation of a profile for questions."""

from __future__ import annotations

from dataclasses import dataclass, field

from skyline.analysis.curve import curve_points
from skyline.analysis.line_notes import line_notes
from skyline.analysis.lines import LineCost, line_costs
from skyline.analysis.rewrites import Rewrites
from skyline.attempt import Attempts
from skyline.findings.base import Finding
from skyline.findings.registry import find
from skyline.rewrite.registry import problems as rewrite_problems
from skyline.simulate.critical_path import CriticalPath, critical_path
from skyline.simulate.timeline import Timeline
from skyline.spread import central_range, median
from skyline.trace.phase import PhaseTimes
from skyline.trace.profile import Profile
from skyline.whatif.baseline import baseline
from skyline.whatif.curve_point import CurvePoint
from skyline.whatif.registry import problems as whatif_problems
from skyline.whatif.subject import Subject

_UNSTEADY = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Analysis:
    """All results that depend on the profile only, computed once, so that each question takes a single simulation.

    ``overhead`` is the recorded iteration time relative to the unrecorded one. ``rewrites`` caches which changes the
    code allows.
    """

    profile: Profile
    baseline: Subject
    timeline: Timeline
    critical_path: CriticalPath
    replay_error: float
    overhead: float
    lines: tuple[LineCost, ...]
    findings: tuple[Finding, ...]
    curve: tuple[CurvePoint, ...]
    notes: tuple[str, ...]
    rewrites: Rewrites = field(repr=False)

    @property
    def phases(self) -> PhaseTimes:
        """Time of each phase of the iteration, in ms."""
        return self.baseline.phases


def analyse(profile: Profile) -> Analysis:
    """Build and calibrate the graph, simulate it, and compute lines, findings and the curve.

    A failing rule, or a failing curve, adds a note.
    """
    start = baseline(profile)
    lines = line_costs(start)
    late = Attempts()
    findings = find(start, late)
    curve = late.to("draw the curve over batch sizes", lambda: curve_points(start), ())
    noted = late.to(
        "compute notes on lines", lambda: tuple(line_notes(profile, lines, start.iteration_ms.value)), ()
    )
    return Analysis(
        profile=profile,
        baseline=start,
        timeline=start.timeline,
        critical_path=critical_path(start.timeline, *start.window_us),
        replay_error=start.replay_error,
        overhead=_overhead(profile, start.iteration_ms.value),
        lines=lines,
        findings=findings,
        curve=curve,
        notes=(
            *profile.notes,
            *_notes(profile),
            *_crowded(profile),
            *noted,
            *start.curve.notes,
            *late.notes,
            *whatif_problems(),
            *rewrite_problems(),
        ),
        rewrites=Rewrites(profile),
    )


def _overhead(profile: Profile, iteration_ms: float) -> float:
    """The overhead of recording, relative to unrecorded iterations next to the recorded ones, if there are any."""
    bare_ms = median(profile.paired_ms) if profile.paired_ms else iteration_ms
    return median(profile.recorded_ms) / bare_ms if profile.recorded_ms and bare_ms > 0 else 1.0


def _crowded(profile: Profile) -> tuple[str, ...]:
    load = profile.load
    if load is None or not load.busy:
        return ()
    kept = f"other programs kept {load.others_cores:.1f} of {load.cores} cores busy"
    return (f"The machine was busy while this was measured: {kept}. Measure again when it is quiet.",)


def _notes(profile: Profile) -> tuple[str, ...]:
    steps = profile.times.steps_ms
    if len(steps) > 1 and (spread := central_range(steps)) > _UNSTEADY:
        ratio = f"the longest iterations take {spread:.1f} times as long as the shortest"
        notes = [f"{ratio}: the machine or the work is unsteady"]
        if profile.recorded_ms:
            notes.append(
                "the overhead of recording is not conclusive: it compares recorded iterations with others, "
                "and these differ by themselves"
            )
        return tuple(notes)
    return ()
