"""A profiler trace in the shape of a profile, for front ends that show profiles: what it does not tell is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from skyline.analysis.traced_answers import TracedEstimate
from skyline.analysis.traced_costs import TracedCost
from skyline.interval import Interval
from skyline.memory.peak import MemoryBreakdown
from skyline.report.schema import (
    PROFILE_SCHEMA,
    BaselineReport,
    BatchSizeReport,
    EstimateReport,
    LineReport,
    MemoryReport,
    ProfileReport,
    WhatIfReport,
)
from skyline.report.traced import TracedWhatIfReport, TraceReport, trace_report, traced_whatif_report
from skyline.trace.facts import Device
from skyline.whatif.recording import Recording

NOT_TOLD = "a trace does not tell the batch size"
UNKNOWN_BYTES = Interval.exact(0.0)
"""No peak is zero: it stands for one that is not known."""
_MOST_ROWS = 200


def profile_of_trace(recording: Recording, file: str, created: str) -> ProfileReport:
    """What a trace says, as a profile; rows without a file are operators, where lines are not known."""
    report = trace_report(recording, file, _MOST_ROWS)
    peak = UNKNOWN_BYTES if report.peak_bytes is None else Interval.exact(float(report.peak_bytes))
    step_ms = report.running_ms
    rows = _rows(report)
    rest = max(0.0, step_ms.value - sum(row.self_ms for row in rows))
    unattributed = rest / step_ms.value if step_ms.value > 0 else 0.0
    return ProfileReport(
        schema=PROFILE_SCHEMA,
        id=PurePath(file).name,
        created=created,
        script=file,
        arguments=(),
        mode="measured",
        device=Device(report.device.name, "cpu" if report.device.kind == "cpu" else "cuda"),
        intraop_threads=0,
        steps=report.steps,
        iteration_ms=step_ms,
        throughput=None,
        batch_size=BatchSizeReport(None, None, NOT_TOLD),
        memory=MemoryReport(peak, None, MemoryBreakdown(0, 0, 0, 0, 0)),
        phases=replace(report.phases, other=report.phases.other + report.idle_ms),
        lines=(*rows, _row("", 0, "", "", rest, unattributed, 0.0, 0.0)),
        unattributed_share=unattributed,
        critical_path=report.critical_path,
        replay_error=report.replay_error,
        overhead=1.0,
        findings=report.findings,
        curve=(),
        loop=None,
        notes=(*report.notes, *report.repairs, *_idle(report)),
    )


def whatifs_of_trace(recording: Recording) -> WhatIfReport:
    """Every what-if that can be asked of a trace, singly."""
    report = traced_whatif_report(recording)
    return WhatIfReport(
        report.schema, _baseline(report), tuple(map(estimate_of_trace, report.estimates)), None
    )


def estimate_of_trace(traced: TracedEstimate) -> EstimateReport:
    """An answer about a trace as one about a profile; a peak that is not known is ``UNKNOWN_BYTES``."""
    return EstimateReport(
        name=traced.name,
        value=traced.value,
        title=traced.title,
        iteration_ms=traced.iteration_ms,
        change_ms=traced.change_ms,
        throughput=None,
        peak_bytes=traced.peak_bytes or UNKNOWN_BYTES,
        speedup=traced.speedup,
        applicable=traced.applicable,
        reason=traced.reason,
        semantics=traced.semantics,
        basis=traced.basis,
        assumptions=traced.assumptions,
        rewrite=traced.rewrite,
        rewrite_reason=traced.rewrite_reason,
        one_off_s=traced.one_off_s,
        break_even_iterations=traced.break_even_iterations,
        values=traced.values,
        speedup_range=traced.speedup_range,
    )


def _baseline(report: TracedWhatIfReport) -> BaselineReport:
    now = report.baseline
    return BaselineReport(now.iteration_ms, None, now.peak_bytes or UNKNOWN_BYTES, now.replay_error)


def _rows(report: TraceReport) -> tuple[LineReport, ...]:
    if report.lines:
        return tuple(_of_line(cost) for cost in report.lines)
    if report.functions:
        return tuple(_of_line(cost) for cost in report.functions)
    return _of_operators(report.operators)


def _of_line(cost: TracedCost) -> LineReport:
    """Lines are called ``file:number``, functions ``file:number name`` or the like."""
    place, _, function = cost.name.partition(" ")
    file, _, number = place.rpartition(":")
    if not number.isdecimal():
        return _of_operators((cost,))[0]
    return _row(file, int(number), function, cost.name, cost.own_ms, cost.share, cost.gpu_ms, cost.kernels)


def _of_operators(costs: Sequence[TracedCost]) -> tuple[LineReport, ...]:
    return tuple(
        _row("", 0, cost.name, cost.name, cost.own_ms, cost.share, cost.gpu_ms, cost.kernels)
        for cost in costs
    )


def _row(
    file: str,
    line: int,
    function: str,
    source: str,
    own_ms: float,
    share: float,
    gpu_ms: float,
    calls: float,
) -> LineReport:
    return LineReport(
        file=file,
        line=line,
        function=function,
        module="",
        source=source,
        calls=calls,
        data_ms=0.0,
        forward_ms=0.0,
        backward_ms=0.0,
        optimizer_ms=0.0,
        other_ms=own_ms,
        self_ms=own_ms,
        share=share,
        activation_bytes=0,
        gpu_ms=gpu_ms,
    )


def _idle(report: TraceReport) -> tuple[str, ...]:
    if report.idle_ms <= 0:
        return ()
    return (f"Of the phase other, {report.idle_ms:.2f} ms are time in which nothing was recorded.",)
