"""A profiler trace in the shape of a profile, for front ends that show profiles: what it does not tell is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from skyline.analysis.traced_costs import TracedCost
from skyline.interval import Interval
from skyline.memory.peak import MemoryBreakdown
from skyline.report.schema import (
    PROFILE_SCHEMA,
    BatchSizeReport,
    LineReport,
    MemoryReport,
    ProfileReport,
)
from skyline.report.traced import TraceReport, trace_report
from skyline.trace.facts import Device
from skyline.whatif.subject import Subject

NOT_TOLD = "a trace does not tell the batch size"
_MOST_ROWS = 200


def profile_of_trace(subject: Subject, file: str, created: str) -> ProfileReport:
    """What a trace says, as a profile; rows without a file are operators, where lines are not known."""
    report = trace_report(subject, file, _MOST_ROWS)
    # No peak is zero: it stands for one that is not known.
    peak = Interval.exact(float(report.peak_bytes or 0))
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
