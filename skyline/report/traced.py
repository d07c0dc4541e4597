"""The contents of a recording as JSON for other programs: ``skyline.trace/1``, and its what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from skyline import units
from skyline.analysis.traced_costs import (
    Sensitivity,
    TracedCost,
    billing,
    function_costs,
    layer_costs,
    line_costs,
    operator_costs,
    sensitivity,
)
from skyline.findings.base import Finding
from skyline.findings.registry import find
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import MemoryBreakdown
from skyline.report.answers import with_cure_that_helps
from skyline.report.schema import (
    PROFILE_SCHEMA,
    BatchSizeReport,
    CriticalPathReport,
    LineReport,
    MemoryReport,
    ProfileReport,
)
from skyline.simulate.critical_path import critical_path
from skyline.trace.facts import Device
from skyline.trace.record import PhaseTimes
from skyline.whatif.question import Estimate
from skyline.whatif.recording import Recording, peak_bytes
from skyline.whatif.subject import DOUBTFUL_REPLAY, REFUSED_REPLAY, Subject

TRACE_SCHEMA = "skyline.trace/1"
_SHOWN = 10
_STEADY = 1.5


@dataclass(frozen=True, slots=True)
class TraceDevice:
    """The device of the recorded work."""

    name: str
    kind: Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class TraceReport:
    """``skyline.trace/1``: times in ms per step, shares from 0 to 1. ``phases`` and ``idle_ms`` sum to a step."""

    schema: str
    file: str
    events: int
    tasks: int
    dialect: str
    device: TraceDevice
    rank: int | None
    world_size: int | None
    steps: tuple[float, ...]
    """All steps as measured; the whole recording if none were marked."""
    has_steps: bool
    counted: int
    """The number of steps in the figures: with more than two steps, all except the first and the last."""
    iteration_ms: Interval
    running_ms: Interval
    """The duration of a step in a longer run: more than recorded if the script ran ahead of the GPU."""
    replay_error: float
    gpu_busy: float
    """The share of the counted steps in which a stream is busy."""
    peak_bytes: int | None
    phases: PhaseTimes
    idle_ms: float
    critical_path: CriticalPathReport
    twice_as_fast: Sensitivity | None
    """Null if the model does not hold."""
    operators: tuple[TracedCost, ...]
    layers: tuple[TracedCost, ...]
    functions: tuple[TracedCost, ...]
    """Set if Python functions were recorded: each by the line of its definition."""
    lines: tuple[TracedCost, ...]
    """Set if operators have call stacks."""
    repairs: tuple[str, ...]
    """The repairs and omissions while reading."""
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    """Empty if the model does not hold, or no steps are known."""


def trace_report(
    subject: Subject, file: str, shown: int = _SHOWN, known: Sequence[Estimate] = ()
) -> TraceReport:
    """The report of a recording, with the ``shown`` costliest operators, layers and lines.

    ``known`` are answers at default values, for the findings.
    """
    recording = subject.recorded
    trace = recording.trace
    bill = billing(recording)
    doubtful = bool(subject.refusal)
    kinds = (operator_costs, layer_costs, function_costs, line_costs)
    costs = [costs_of(recording, bill, shown) for costs_of in kinds]
    if doubtful:
        costs = [tuple(replace(cost, saved_ms=None) for cost in group) for group in costs]
    return TraceReport(
        schema=TRACE_SCHEMA,
        file=file,
        events=len(trace),
        tasks=len(recording.graph),
        dialect=trace.dialect,
        device=TraceDevice(subject.device_name, "gpu" if recording.on_gpu else "cpu"),
        rank=trace.rank if trace.rank >= 0 else None,
        world_size=trace.world_size or None,
        steps=recording.steps_ms,
        has_steps=recording.has_steps,
        counted=recording.count,
        iteration_ms=recording.iteration_ms,
        running_ms=recording.running_ms,
        replay_error=subject.replay_error,
        gpu_busy=bill.gpu_share,
        peak_bytes=peak_bytes(recording),
        phases=bill.phases,
        idle_ms=bill.idle_ms,
        critical_path=critical_path(recording.timeline, *recording.window_us),
        twice_as_fast=None if doubtful else sensitivity(subject),
        operators=costs[0],
        layers=costs[1],
        functions=costs[2],
        lines=costs[3],
        repairs=tuple(str(note) for note in trace.notes),
        notes=_notes(subject, recording, bill.phases),
        findings=()
        if doubtful or not recording.has_steps
        else tuple(with_cure_that_helps(subject, one, known=known) for one in find(subject)),
    )


def trace_name(report: TraceReport) -> str:
    """The file's name, without its folders."""
    return PurePath(report.file).name


def _notes(subject: Subject, recording: Recording, phases: PhaseTimes) -> tuple[str, ...]:
    """The basis of the figures, and their gaps."""
    notes: list[str] = []
    trace, found = recording.trace, recording.kineto.found
    if subject.replay_error > REFUSED_REPLAY:
        notes.append(
            f"The simulation of the recorded step differs by {units.format_share(subject.replay_error)} "
            "from the measurement. "
            "Something outside the trace delays the step, so Skyline predicts nothing from it."
        )
    elif subject.replay_error > DOUBTFUL_REPLAY:
        notes.append(
            f"The simulation of the recorded step differs by {units.format_share(subject.replay_error)} "
            "from the measurement: "
            "simulated figures are rough."
        )
    if not recording.has_steps:
        notes.append(
            "No steps are marked (profiler.step()), and there are too few batches or updates to detect them: the whole "
            "recording counts as one step."
        )
    elif recording.count < 2:
        notes.append("A single step is counted: the variation between steps is unknown. Record five or more.")
    counted = recording.steps_ms[recording.counted]
    if min(counted) > 0 and max(counted) / min(counted) > _STEADY:
        notes.append(
            f"The slowest counted step takes {max(counted) / min(counted):.1f} times as long as the fastest: the "
            "speed of the machine or the amount of work varies."
        )
    if recording.gpu_lags:
        notes.append(
            f"The script ran ahead of the GPU: its steps took {units.format_ms(recording.iteration_ms.value)}, and the "
            f"work that they launched takes {units.format_ms(recording.running_ms.value)}. A longer run "
            "cannot stay ahead like this: the figures describe the launched work."
        )
    if before := found.get("work launched before the recording", 0):
        notes.append(
            f"{before} pieces of GPU work were launched before the recording began; they keep their measured "
            "times, and the first step includes them."
        )
    if phases.communication > 0 and (trace.world_size > 1 or trace.rank > 0):
        notes.append(
            "Collectives include the wait for other ranks. The trace of one rank cannot separate this wait; "
            "skyline ranks FOLDER can. What-ifs leave the other ranks unchanged."
        )
    notes.append("A trace does not show the batch size, the memory by owner or the cores of the machine.")
    return tuple(notes)


NOT_TOLD = "a trace does not show the batch size"
_MOST_ROWS = 200


def profile_of_trace(subject: Subject, file: str, created: str) -> ProfileReport:
    """A trace as a profile; if lines are unknown, operators become rows without a file."""
    report = trace_report(subject, file, _MOST_ROWS)
    # No peak is zero, so zero stands for an unknown one.
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
    """The row of a line: lines have names like ``file:number``, functions like ``file:number name``."""
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
    return (f"The phase other includes {report.idle_ms:.2f} ms in which nothing was recorded.",)
