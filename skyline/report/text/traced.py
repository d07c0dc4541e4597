"""A recording on the terminal: where its steps go, what bounds them, what changes would bring."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.analysis.traced_costs import TracedCost
from skyline.report.schema import WhatIfReport
from skyline.report.text.findings import render_findings
from skyline.report.text.page import GUTTER, PHASE_STYLES, Column, Page, column_width
from skyline.report.text.phases import apportion, render_bounds
from skyline.report.text.whatifs import render_estimates
from skyline.report.traced import TraceReport, trace_name
from skyline.trace.phase import Phase
from skyline.whatif.subject import DOUBTFUL_REPLAY

_SHOWN = 8
_LEAST = 5e-4
"""Share of a step below which nothing is shown."""


def render_trace(report: TraceReport, whatifs: WhatIfReport | None, console: Console) -> None:
    """The whole page, top to bottom."""
    page = Page.on(console, None)
    page.blank()
    _render_head(report, page)
    page.blank()
    _render_phases(report, page)
    page.blank()
    _render_bounds(report, page)
    for title, costs in (
        ("Costliest operators", report.operators),
        ("Costliest layers", report.layers),
        ("Costliest functions", () if report.lines else report.functions),
        ("Costliest lines", report.lines),
    ):
        if costs:
            page.blank()
            _render_costs(title, costs, page)
    if whatifs is not None:
        page.blank()
        render_estimates(whatifs, page, script="TRACE", of_trace=True)
    if report.findings:
        page.blank()
        render_findings(report.findings, page, "step")
    page.remarks("Notes", report.notes)
    page.blank()


def render_trace_answers(report: TraceReport, whatifs: WhatIfReport, console: Console) -> None:
    """The answers to some what-ifs, with what they rest on."""
    page = Page.on(console, None)
    page.blank()
    _render_head(report, page)
    page.blank()
    render_estimates(whatifs, page, script="TRACE", of_trace=True, detail=True)
    page.blank()


def _render_head(report: TraceReport, page: Page) -> None:
    of = f" of {report.world_size}" if report.world_size else ""
    rank = f" · rank {report.rank}{of}" if report.rank is not None and (report.world_size or 0) > 1 else ""
    name = page.shortened(trace_name(report), page.width - 10, "bold")
    page.line(page.text("Skyline", "bold cyan"), Text("   "), name)
    page.paragraph(f"PyTorch profiler trace · {report.device.name}{rank} · {_read(report)}", style="dim")
    page.blank()
    step = "per step" if report.has_steps else "in all"
    figures = [f"{units.format_ms_interval(report.running_ms)} {step}"]
    if report.device.kind == "gpu":
        figures.append(f"GPU busy {units.format_share(report.gpu_busy)}")
    if report.peak_bytes is not None:
        figures.append(f"peak {units.format_bytes(report.peak_bytes)}")
    page.line(page.text("    ".join(figures), "bold"))
    page.paragraph(_steps(report), style="dim")
    page.paragraph(_replay(report), style="yellow" if report.replay_error > DOUBTFUL_REPLAY else "dim")


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
    said = f"simulation error {units.format_share(report.replay_error)}"
    if report.device.kind == "cpu":
        return f"{said}: all times of a CPU are taken as measured"
    return f"{said}, with one launch latency for the whole trace"


def _render_phases(report: TraceReport, page: Page) -> None:
    """One row per phase that took time, what is nobody's, and their sum."""
    rows = [(phase.value, report.phases[phase], PHASE_STYLES[phase]) for phase in Phase]
    total = report.phases.total + report.idle_ms
    rows = [row for row in [*rows, ("idle", report.idle_ms, "dim")] if row[1] > _LEAST * total]
    if not rows:
        return
    scale = units.time_scale((total,))
    shares = apportion([ms / total * 100 for _, ms, _ in rows], 0)
    times = apportion([ms * scale.factor for _, ms, _ in rows], scale.decimals)
    cells: list[tuple[Text, ...]] = []
    room, start = page.width - 40, 0.0
    for (name, ms, style), share, time in zip(rows, shares, times, strict=True):
        before, after = round(start * room), round((start + ms / total) * room)
        bar = page.glyphs.full * (after - before) or page.glyphs.sliver
        cells.append(
            (
                page.text(name),
                page.text(f"{time:.{scale.decimals}f} {scale.unit}"),
                page.text(f"{share:.0f} %" if share >= 1 else units.format_share(ms / total)),
                Text(" " * min(before, room - 1)).append(bar, style=style),
            )
        )
        start += ms / total
    whole = "step" if report.has_steps else "recording"
    cells.append((page.text(whole), page.text(scale.text(total)), page.text("100 %"), Text("")))
    page.table((Column("", "left"), Column(""), Column(""), Column("", "left")), cells)


def _render_bounds(report: TraceReport, page: Page) -> None:
    render_bounds(report.critical_path, page)
    if report.twice_as_fast is not None:
        faster = report.twice_as_fast
        sides = (
            ("GPU", faster.gpu_ms),
            ("communication", faster.communication_ms),
            ("host", faster.host_ms),
            ("data loading", faster.data_ms),
        )
        scale = units.time_scale((report.running_ms.value,))
        said = [f"{name} {scale.text(step_ms)}" for name, step_ms in sides if step_ms is not None]
        page.paragraph(f"the step with one of them twice as fast: {', '.join(said)}", style="dim")


def _render_costs(title: str, costs: Sequence[TracedCost], page: Page) -> None:
    shown = costs[:_SHOWN]
    times = [cost.own_ms for cost in shown]
    scale = units.time_scale(times)
    page.title(title, f"{scale.unit} per step; if free: change of the step, simulated")
    on_gpu = any(cost.gpu_ms > 0 for cost in shown)
    titles = ["", scale.unit, "share", *(("on GPU", "kernels") if on_gpu else ()), "if free"]
    numbers: list[list[Text]] = []
    for cost in shown:
        saved = "?" if cost.saved_ms is None else scale.signed(-cost.saved_ms)
        style = "bold red" if cost.share >= 0.15 else "bold yellow" if cost.share >= 0.05 else ""
        gpu = [page.text(scale.number(cost.gpu_ms)), page.text(units.format_count(round(cost.kernels, 1)))]
        numbers.append(
            [
                page.text(scale.number(cost.own_ms), style),
                page.text(units.format_share(cost.share)),
                *(gpu if on_gpu else []),
                page.text(saved),
            ]
        )
    taken = [column_width(name, [row[i] for row in numbers]) + GUTTER for i, name in enumerate(titles[1:])]
    room = max(12, page.width - sum(taken))
    named = [_end_of(cost.name, room, page) for cost in shown]
    rows = [(name, *row) for name, row in zip(named, numbers, strict=True)]
    page.table((Column("", "left"), *(Column(name) for name in titles[1:])), rows)


def _end_of(name: str, width: int, page: Page) -> Text:
    """A name in at most ``width`` cells: of paths and layers the end says which it is."""
    if cell_len(page.glyphs.text(name)) > width and name.isascii():
        name = page.glyphs.ellipsis + name[len(page.glyphs.ellipsis) - width :]
    return page.shortened(name, width)
