"""The page of a recording: the parts of its steps, what bounds them, and the effects of changes."""

from __future__ import annotations

from collections.abc import Sequence

from skyline import units
from skyline.analysis.traced_costs import TracedCost
from skyline.report.document import (
    Breakdown,
    BreakdownPart,
    Cell,
    Column,
    Document,
    Figure,
    Figures,
    Row,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    said,
)
from skyline.report.pages.findings import findings_section
from skyline.report.pages.lines import heat
from skyline.report.pages.phases import bounds_section, phase_parts
from skyline.report.pages.verdict import verdict_blocks
from skyline.report.pages.whatifs import whatif_sections
from skyline.report.schema import VerdictReport, WhatIfReport
from skyline.report.traced import TraceReport, trace_name
from skyline.whatif.subject import DOUBTFUL_REPLAY

_SHOWN = 8
_LEAST = 5e-4
"""The share of a step below which a part is not shown."""


def trace_page(report: TraceReport, whatifs: WhatIfReport | None) -> Document:
    """The whole page, from top to bottom."""
    costs = (
        ("Costliest operators", report.operators),
        ("Costliest layers", report.layers),
        ("Costliest functions", () if report.lines else report.functions),
        ("Costliest lines", report.lines),
    )
    return document(
        *_head(report, whatifs.verdict if whatifs is not None else None),
        _phases(report),
        bounds_section(report.critical_path, *said(_twice_as_fast(report))),
        *(_costs(title, each) for title, each in costs if each),
        *(whatif_sections(whatifs, script="TRACE", of_trace=True) if whatifs is not None else ()),
        findings_section(report.findings, None, "step"),
        paragraphs("Notes", report.notes),
    )


def trace_answers_page(report: TraceReport, whatifs: WhatIfReport) -> Document:
    """The answers to some what-ifs, and their basis."""
    return document(
        *_head(report, None), *whatif_sections(whatifs, script="TRACE", of_trace=True, detail=True)
    )


def _head(report: TraceReport, verdict: VerdictReport | None) -> tuple[Section, ...]:
    of = f" of {report.world_size}" if report.world_size else ""
    rank = f" · rank {report.rank}{of}" if report.rank is not None and (report.world_size or 0) > 1 else ""
    title = Title(
        trace_name(report), f"PyTorch profiler trace · {report.device.name}{rank} · {_read(report)}"
    )
    step = "per step" if report.has_steps else "in all"
    figures = [Figure("Step", f"{units.format_ms_interval(report.running_ms)} {step}")]
    if report.device.kind == "gpu":
        figures.append(Figure("GPU", f"GPU busy {units.format_share(report.gpu_busy)}"))
    if report.peak_bytes is not None:
        figures.append(Figure("Peak memory", f"peak {units.format_bytes(report.peak_bytes)}"))
    doubtful = report.replay_error > DOUBTFUL_REPLAY
    remarks = (*said(_steps(report)), *said(_replay(report), tone="yellow" if doubtful else "dim"))
    return (
        Section((title,)),
        Section((Figures(tuple(figures)),)),
        Section((*verdict_blocks(verdict, trace_name(report)), *remarks)),
    )


def _read(report: TraceReport) -> str:
    events = f"{report.events:,} events read"
    if not report.repairs:
        return f"{events}, nothing to repair"
    return f"{events}; {'; '.join(report.repairs)}"


def _steps(report: TraceReport) -> str:
    if not report.has_steps:
        return "no steps are marked: the whole recording counts as one"
    count = len(report.steps)
    if count == 1:
        return "one step was recorded"
    scale = units.time_scale(report.steps)
    times = ", ".join(scale.number(step) for step in report.steps[:12]) + (", …" if count > 12 else "")
    inner = "the inner one of " if report.counted == 1 else f"the {report.counted} inner ones of "
    which = inner if count > 2 else "the last of "
    return f"{which}{count} steps: {times} {scale.unit}"


def _replay(report: TraceReport) -> str:
    error = f"simulation error {units.format_share(report.replay_error)}"
    if report.device.kind == "cpu":
        return f"{error}: all times of a CPU are taken as measured"
    return f"{error}, with one launch latency for the whole trace"


def _phases(report: TraceReport) -> Section | None:
    """Time by phase, then the time outside all phases, and the sum."""
    total = report.phases.total + report.idle_ms
    parts = (*phase_parts(report.phases), BreakdownPart("idle", "dim", report.idle_ms))
    parts = tuple(part for part in parts if part.value > _LEAST * total)
    if not parts:
        return None
    scale = units.time_scale((total,))
    whole = "step" if report.has_steps else "recording"
    return Section((Breakdown(f"The {whole}, by phase", parts, scale.text, whole, total, scale),))


def _twice_as_fast(report: TraceReport) -> str:
    if report.twice_as_fast is None:
        return ""
    faster = report.twice_as_fast
    sides = (
        ("GPU", faster.gpu_ms),
        ("communication", faster.communication_ms),
        ("host", faster.host_ms),
        ("data loading", faster.data_ms),
    )
    scale = units.time_scale((report.running_ms.value,))
    times = [f"{name} {scale.text(step_ms)}" for name, step_ms in sides if step_ms is not None]
    return f"the step with one of them twice as fast: {', '.join(times)}"


def _costs(title: str, costs: Sequence[TracedCost]) -> Section:
    shown = costs[:_SHOWN]
    scale = units.time_scale([cost.own_ms for cost in shown])
    on_gpu = any(cost.gpu_ms > 0 for cost in shown)

    def row(cost: TracedCost) -> Row:
        gpu = (Cell(scale.number(cost.gpu_ms)), Cell(units.format_count(round(cost.kernels, 1))))
        return Row(
            (
                Cell(cost.name),
                Cell(scale.number(cost.own_ms), heat(cost.share) if cost.share >= 0.05 else ""),
                Cell(units.format_share(cost.share)),
                *(gpu if on_gpu else ()),
                Cell("?" if cost.saved_ms is None else scale.signed(-cost.saved_ms)),
            )
        )

    titles = (scale.unit, "share", *(("on GPU", "kernels") if on_gpu else ()), "if free")
    # The end of a path or of a layer's name identifies it.
    columns = (Column("", left=True, cut="start"), *map(Column, titles))
    aside = f"{scale.unit} per step; if free: change of the step without it"
    return Section((TextTable(columns, tuple(map(row, shown))),), title, aside)
