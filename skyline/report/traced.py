"""What a recording says, as the JSON that other programs read: ``skyline.trace/1``, and its what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from skyline import units
from skyline.analysis.traced_answers import (
    DOUBTFUL_REPLAY,
    REFUSED_REPLAY,
    TracedEstimate,
    estimate_traced,
    rank_traced,
)
from skyline.analysis.traced_costs import (
    TracedCost,
    billing,
    function_costs,
    layer_costs,
    line_costs,
    operator_costs,
)
from skyline.analysis.traced_sensitivity import Sensitivity, sensitivity
from skyline.findings.base import Finding
from skyline.findings.registry import find
from skyline.interval import Interval
from skyline.report.schema import WHATIF_SCHEMA, CriticalPathReport
from skyline.simulate.critical_path import critical_path
from skyline.trace.phase import PhaseTimes
from skyline.whatif.question import Choice
from skyline.whatif.recording import Recording
from skyline.whatif.trace_facts import device_name, peak_bytes

TRACE_SCHEMA = "skyline.trace/1"
_SHOWN = 10
_STEADY = 1.5


@dataclass(frozen=True, slots=True)
class TraceDevice:
    """Where the recorded work ran."""

    name: str
    kind: Literal["cpu", "gpu"]


@dataclass(frozen=True, slots=True)
class TraceReport:
    """``skyline.trace/1``: times in ms per step, shares 0 to 1. ``phases`` and ``idle_ms`` sum to a step."""

    schema: str
    file: str
    events: int
    tasks: int
    dialect: str
    device: TraceDevice
    rank: int | None
    world_size: int | None
    steps: tuple[float, ...]
    """All steps as measured; the whole recording where none were marked."""
    has_steps: bool
    counted: int
    """How many of them the numbers are of: where there are more than two neither the first nor the last."""
    iteration_ms: Interval
    running_ms: Interval
    """What a step takes in a run that goes on: longer where the recorded script ran ahead of the GPU."""
    replay_error: float
    gpu_busy: float
    """Share of the counted steps in which a stream is busy."""
    peak_bytes: int | None
    phases: PhaseTimes
    idle_ms: float
    critical_path: CriticalPathReport
    twice_as_fast: Sensitivity | None
    """Null where the model does not hold."""
    operators: tuple[TracedCost, ...]
    layers: tuple[TracedCost, ...]
    functions: tuple[TracedCost, ...]
    """Where Python functions were recorded: each by the line of its definition."""
    lines: tuple[TracedCost, ...]
    """Where operators have call stacks."""
    repairs: tuple[str, ...]
    """What reading had to repair, leave out or do without."""
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    """None where the model does not hold, or no steps are known."""


@dataclass(frozen=True, slots=True)
class TracedBaseline:
    """The script as it was recorded."""

    iteration_ms: Interval
    throughput: None
    peak_bytes: Interval | None
    replay_error: float


@dataclass(frozen=True, slots=True)
class TracedWhatIfReport:
    """``skyline.whatif/1`` about a recording: what a trace does not tell is null."""

    schema: str
    baseline: TracedBaseline
    estimates: tuple[TracedEstimate, ...]
    combined: TracedEstimate | None


def trace_report(recording: Recording, file: str, shown: int = _SHOWN) -> TraceReport:
    """What a recording says; of operators, layers and lines the ``shown`` dearest."""
    trace = recording.trace
    bill = billing(recording)
    doubtful = recording.replay_error > REFUSED_REPLAY
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
        device=TraceDevice(device_name(recording), "gpu" if recording.on_gpu else "cpu"),
        rank=trace.rank if trace.rank >= 0 else None,
        world_size=trace.world_size or None,
        steps=recording.steps_ms,
        has_steps=recording.has_steps,
        counted=recording.count,
        iteration_ms=recording.iteration_ms,
        running_ms=recording.running_ms,
        replay_error=recording.replay_error,
        gpu_busy=bill.gpu_share,
        peak_bytes=peak_bytes(recording),
        phases=bill.phases,
        idle_ms=bill.idle_ms,
        critical_path=critical_path(recording.timeline, *recording.window_us),
        twice_as_fast=None if doubtful else sensitivity(recording),
        operators=costs[0],
        layers=costs[1],
        functions=costs[2],
        lines=costs[3],
        repairs=tuple(str(note) for note in trace.notes),
        notes=_notes(recording, bill.phases),
        findings=() if doubtful or not recording.has_steps else _findings(recording),
    )


def traced_whatif_report(recording: Recording, choices: Sequence[Choice] = ()) -> TracedWhatIfReport:
    """Each choice singly and all together; without choices every what-if singly, ranked by its gain."""
    peak = peak_bytes(recording)
    baseline = TracedBaseline(
        recording.running_ms,
        None,
        None if peak is None else Interval.exact(float(peak)),
        recording.replay_error,
    )
    if not choices:
        return TracedWhatIfReport(WHATIF_SCHEMA, baseline, rank_traced(recording), None)
    singly = tuple(estimate_traced(recording, (choice,)) for choice in choices)
    combined = estimate_traced(recording, choices) if len(choices) > 1 else None
    return TracedWhatIfReport(WHATIF_SCHEMA, baseline, singly, combined)


def trace_name(report: TraceReport) -> str:
    """The file's name, without its folders."""
    return PurePath(report.file).name


def _findings(recording: Recording) -> tuple[Finding, ...]:
    return tuple(_with_cure_that_helps(recording, one) for one in find(recording))


def _with_cure_that_helps(recording: Recording, finding: Finding) -> Finding:
    """A finding names its what-if only where that is predicted to bring something here."""
    if finding.whatif is None:
        return finding
    answer = estimate_traced(recording, (Choice.parse(finding.whatif),))
    return finding if answer.applicable and answer.speedup > 1 else replace(finding, whatif=None)


def _notes(recording: Recording, phases: PhaseTimes) -> tuple[str, ...]:
    """What the numbers rest on, and what cannot be said."""
    notes: list[str] = []
    trace, found = recording.trace, recording.kineto.found
    if recording.replay_error > REFUSED_REPLAY:
        notes.append(
            f"Simulated as recorded, a step comes out {units.format_share(recording.replay_error)} off. Something that "
            "the trace does not show holds the step up, so nothing is predicted from it."
        )
    elif recording.replay_error > DOUBTFUL_REPLAY:
        notes.append(
            f"Simulated as recorded, a step comes out {units.format_share(recording.replay_error)} off: take what is "
            "simulated as a rough figure."
        )
    if not recording.has_steps:
        notes.append(
            "No steps are marked (profiler.step()), and batches or updates are too few to tell them: the whole "
            "recording counts as one step."
        )
    elif recording.count < 2:
        notes.append("A single step is counted: how steps scatter is not known. Record five or more.")
    counted = recording.steps_ms[recording.counted]
    if min(counted) > 0 and max(counted) / min(counted) > _STEADY:
        notes.append(
            f"The counted steps differ by {max(counted) / min(counted):.1f} times among themselves: the machine or the "
            "work is unsteady."
        )
    if recording.runs_ahead:
        notes.append(
            f"The script ran ahead of the GPU: its steps took {units.format_ms(recording.iteration_ms.value)}, what "
            f"they launched takes {units.format_ms(recording.running_ms.value)}. A run cannot go on like that; numbers "
            "are about the latter."
        )
    if before := found.get("work launched before the recording", 0):
        notes.append(
            f"{before} pieces of GPU work were launched before the recording began; they stand where they were "
            "measured, and the first step inherits them."
        )
    if phases.communication > 0 and (trace.world_size > 1 or trace.rank > 0):
        notes.append(
            "Collectives hold the time they wait for other ranks, which one rank's trace cannot tell apart: "
            "skyline ranks FOLDER does. What-ifs leave the other ranks as they were."
        )
    notes.append("Not known from a trace: batch size, memory by owner, cores of the machine.")
    return tuple(notes)
