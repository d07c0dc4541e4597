"""Builds the reports that other programs read from an analysis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from skyline.analysis.analyse import Analysis
from skyline.analysis.best import Constraints, best
from skyline.analysis.estimate import estimate
from skyline.analysis.line_kernels import line_kernels
from skyline.analysis.verdict import verdict
from skyline.findings.bounds import busy_share
from skyline.interval import Interval
from skyline.memory.peak import usable_bytes
from skyline.memory.timeline import memory_timeline
from skyline.report.answers import answers_report, with_cure_that_helps
from skyline.report.basis import whatif_key
from skyline.report.batch_contents import contents_of
from skyline.report.cells import notebook_notes, with_cells
from skyline.report.latency import latency_of
from skyline.report.schema import (
    PROFILE_SCHEMA,
    BatchSizeReport,
    BestReport,
    EstimateReport,
    KnobReport,
    LoopReport,
    MemoryReport,
    PeakLine,
    ProfileReport,
    WhatIfReport,
)
from skyline.report.wall_time import wall_time_of
from skyline.source.knob import Knob
from skyline.trace.batch_place import batch_place
from skyline.trace.record import ON_DEVICE, Phase, PhaseTimes, Trace
from skyline.whatif.base import throughput_at
from skyline.whatif.question import Question

if TYPE_CHECKING:
    from skyline.ledger.ledger import LedgerEntry

_MOST_AT_PEAK = 20


def profile_report(analysis: Analysis) -> ProfileReport:
    """The report of a profile, as ``skyline.profile/1``."""
    profile, start = analysis.profile, analysis.baseline
    head = head_report(analysis)
    report = replace(
        head,
        batch_size=_batch_size(analysis),
        memory=_memory(head.memory, analysis),
        lines=analysis.lines,
        unattributed_share=analysis.lines[-1].share,
        findings=tuple(
            with_cure_that_helps(start, finding, analysis.rewrites) for finding in analysis.findings
        ),
        curve=analysis.curve,
        notes=(*analysis.notes, *notebook_notes(profile)),
        gpu_phases=gpu_phases(profile.trace),
        gpu_busy_share=busy_share(start) if start.gpu_recorded else None,
        kernels=line_kernels(profile.trace),
        latency=latency_of(profile),
        wall_time=wall_time_of(profile, start.iteration_ms.value),
    )
    return with_cells(report, profile)


def head_report(analysis: Analysis) -> ProfileReport:
    """The report without the place of the batch size, lines, findings, curve, notes, latency and memory over time.

    It is enough for the headline and its basis.
    """
    profile, start = analysis.profile, analysis.baseline
    loop = profile.loop_line
    return ProfileReport(
        schema=PROFILE_SCHEMA,
        id=profile.id,
        created=profile.created,
        script=profile.script,
        arguments=profile.arguments,
        mode=profile.mode,
        device=profile.environment.device,
        intraop_threads=profile.environment.intraop_threads,
        steps=profile.times.steps_ms,
        iteration_ms=start.iteration_ms,
        throughput=throughput_at(start, profile.batch_size, start.iteration_ms),
        batch_size=BatchSizeReport(profile.batch_size, None, None, ()),
        memory=MemoryReport(
            Interval.exact(float(start.peak.total)),
            profile.environment.memory_capacity_bytes or None,
            start.peak,
            usable_bytes(profile),
            device=profile.device_memory,
        ),
        phases=start.phases,
        lines=(),
        unattributed_share=0.0,
        critical_path=analysis.critical_path,
        replay_error=analysis.replay_error,
        overhead=analysis.overhead,
        findings=(),
        curve=(),
        loop=LoopReport(loop.file, loop.line) if loop else None,
        notes=(),
        module=profile.module,
        iteration=profile.iteration,
        warmup_iterations=profile.warmup_iterations,
        warmup_reason=profile.warmup_reason,
        side_effects=profile.side_effects,
        protection=profile.protection,
        prediction=profile.prediction,
        power=profile.power,
        load=profile.load,
        machine_busy=profile.load is not None and profile.load.busy,
        set_aside=profile.set_aside,
        contents=contents_of(profile),
    )


def whatif_report(analysis: Analysis, question: Question | None = None) -> WhatIfReport:
    """The answers as ``skyline.whatif/2``: each part of the question alone, and all combined.

    Without a question, every known what-if is answered alone and ranked by its gain. What-ifs that are in the
    code already are listed with their values.
    """
    choices = None if question is None else question.all_choices
    report = answers_report(analysis.baseline, choices, analysis.rewrites)
    if question is not None:
        return with_cells(report, analysis.profile)
    found = tuple(_with_presence(analysis, each) for each in report.estimates)
    report = replace(report, estimates=found, verdict=verdict(analysis.baseline, found))
    return with_cells(report, analysis.profile)


def with_ledger(answer: WhatIfReport, analysis: Analysis, entries: Iterable[LedgerEntry]) -> WhatIfReport:
    """Adds the accuracy of earlier predictions of the same kind; none of the numbers changes."""
    known = tuple(entries)
    if not known:
        return answer
    # A saved profile is shown without loading the ledger and its database.
    from skyline.ledger.ledger import Conditions
    from skyline.ledger.record import track_record

    machine = Conditions.of(analysis.profile)
    asked = [*answer.estimates, *([answer.combined] if answer.combined is not None else [])]
    names = dict.fromkeys(whatif_key(estimate, answer) for estimate in asked if estimate.applicable)
    records = (track_record(known, name, machine) for name in names)
    return replace(answer, ledger=tuple(record for record in records if record is not None))


def _with_presence(analysis: Analysis, estimate: EstimateReport) -> EstimateReport:
    found = analysis.rewrites.presence(estimate.name)
    return replace(estimate, present=found.value, removal=found.removal, removal_reason=found.reason)


def best_report(analysis: Analysis, constraints: Constraints) -> BestReport:
    """The best combination within the constraints."""
    found = best(analysis, constraints)
    return BestReport(
        tuple(map(str, found.question.choices)),
        found.estimate,
        tuple(estimate(analysis, Question(choices=(choice,))) for choice in found.question.choices),
        found.tried,
        found.memory_bytes,
        constraints.semantics.value,
        found.reason or None,
        found.left_out,
    )


def _memory(report: MemoryReport, analysis: Analysis) -> MemoryReport:
    profile, iteration_ms = analysis.profile, analysis.baseline.iteration_ms.value
    lines = sorted(
        (line for line in analysis.lines if line.peak_bytes > 0), key=lambda line: -line.peak_bytes
    )
    return replace(
        report,
        timeline=memory_timeline(profile.memory, profile.trace, iteration_ms),
        at_peak=tuple(
            PeakLine(line.file, line.line, line.source, line.peak_bytes) for line in lines[:_MOST_AT_PEAK]
        ),
    )


def _batch_size(analysis: Analysis) -> BatchSizeReport:
    profile = analysis.profile
    place = batch_place(profile)
    return BatchSizeReport(
        value=profile.batch_size,
        knob=_knob(place.knob) if place.knob is not None else None,
        reason=place.reason or None,
        candidates=tuple(_knob(knob) for knob in profile.knobs.candidates),
        lives=place.setting,
    )


def _knob(knob: Knob) -> KnobReport:
    span = knob.span
    return KnobReport(span.file, span.line, span.column, span.end_column, knob.text, knob.kind.value)


def gpu_phases(trace: Trace) -> PhaseTimes | None:
    """The time of kernels and copies per iteration in ms, summed over all streams. None if none was recorded."""
    work = [record for record in trace.records if record.kind in ON_DEVICE]
    if not work:
        return None
    times = dict.fromkeys(Phase, 0.0)
    for record in work:
        times[record.phase] += record.duration_us / 1e3 / max(1, len(trace.iterations))
    return PhaseTimes.of(times)
