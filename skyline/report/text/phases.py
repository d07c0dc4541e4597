"""Where an iteration goes, phase by phase: bars laid end to end, so that they visibly make up the whole."""

from __future__ import annotations

from dataclasses import fields

from rich.text import Text

from skyline import units
from skyline.report.schema import ProfileReport
from skyline.report.text.page import PHASE_STYLES, Column, Page
from skyline.simulate.critical_path import CriticalPath
from skyline.trace.phase import Phase

_AT_PEAK = 3


def render_phases(report: ProfileReport, page: Page) -> None:
    """One row per phase that took time, and their sum."""
    phases = [phase for phase in Phase if report.phases[phase] > 0]
    total = report.phases.total
    if not phases or total <= 0:
        return
    scale = units.time_scale((total,))
    rows: list[tuple[Text, ...]] = []
    room = page.width - 40
    start = 0.0
    shares = apportion([report.phases[phase] / total * 100 for phase in phases], 0)
    times = apportion([report.phases[phase] * scale.factor for phase in phases], scale.decimals)
    for phase, share, time in zip(phases, shares, times, strict=True):
        end = start + report.phases[phase] / total
        before, after = round(start * room), round(end * room)
        bar = page.glyphs.full * (after - before) or page.glyphs.sliver
        rows.append(
            (
                page.text(phase.value),
                page.text(f"{time:.{scale.decimals}f} {scale.unit}"),
                page.text(f"{share:.0f} %" if share >= 1 else units.format_share(end - start)),
                Text(" " * min(before, room - 1)).append(bar, style=PHASE_STYLES[phase]),
            )
        )
        start = end
    rows.append((page.text("iteration"), page.text(scale.text(total)), page.text("100 %"), Text("")))
    columns = (Column("", "left"), Column(""), Column(""), Column("", "left"))
    page.table(columns, rows)
    _render_gpu(report, page, room)
    _render_memory(report, page)


def _render_gpu(report: ProfileReport, page: Page, room: int) -> None:
    """The kernels' time by phase: one bar next to that of the iteration, and the phases in words."""
    work = report.gpu_phases
    if work is None or work.total <= 0:
        return
    scale = units.time_scale((report.phases.total,))
    phases = [phase for phase in Phase if work[phase] > 0]
    # Streams side by side may do more than an iteration's worth.
    whole = max(work.total, report.phases.total)
    bar = Text(no_wrap=True)
    reached = 0.0
    for phase in phases:
        before, reached = round(reached / whole * room), reached + work[phase]
        bar.append(page.glyphs.full * (round(reached / whole * room) - before), style=PHASE_STYLES[phase])
    page.blank()
    share = units.format_share(work.total / report.phases.total)
    head = page.text(f"GPU work  {scale.text(work.total)}  {share}  ")
    page.line(head, bar, page.text(page.glyphs.hollow * (room - bar.cell_len), "dim"))
    parts = ", ".join(f"{phase.value} {scale.text(work[phase])}" for phase in phases)
    page.paragraph(f"time of kernels and copies per iteration, all streams added up: {parts}", style="dim")


def _render_memory(report: ProfileReport, page: Page) -> None:
    """Who owns the bytes at the peak, in one sentence."""
    breakdown = report.memory.breakdown
    owners = {
        "parameters": breakdown.parameters,
        "gradients": breakdown.gradients,
        "optimizer": breakdown.optimizer,
        "activations": breakdown.activations,
        "other": breakdown.other,
    }
    named = [f"{name} {units.format_bytes(size)}" for name, size in owners.items() if size]
    if named:
        page.paragraph(f"peak memory: {', '.join(named)}", style="dim")
    lines = [
        f"{page.place(line.file, line.line, 40).plain} ({units.format_bytes(line.size_bytes)})"
        for line in report.memory.at_peak
        if line.file
    ]
    if lines:
        page.paragraph(f"most of it taken at {', '.join(lines[:_AT_PEAK])}", style="dim")


def apportion(values: list[float], decimals: int) -> list[float]:
    """Round so that the rounded parts still sum to the rounded whole (largest remainder)."""
    unit = 10**decimals
    scaled = [value * unit for value in values]
    floors = [int(value) for value in scaled]
    missing = round(sum(scaled)) - sum(floors)
    by_remainder = sorted(range(len(values)), key=lambda index: floors[index] - scaled[index])
    for index in by_remainder[: max(0, missing)]:
        floors[index] += 1
    return [value / unit for value in floors]


_CAUSES = {
    "cpu": "host",
    "gpu_compute": "GPU, computing",
    "gpu_communication": "GPU, communicating",
    "launch": "launches",
    "data": "data loading",
    "idle": "nothing recorded",
}
_BAR = 24
_LEAST = 5e-4
"""Share below which nothing is shown."""


def render_bounds(path: CriticalPath, page: Page) -> None:
    """One row per cause, the largest first."""
    page.title("Bound by", "shares of the critical path")
    shares = {field.name: float(getattr(path, field.name)) for field in fields(path)}
    rows: list[tuple[Text, ...]] = []
    for name in sorted(shares, key=lambda name: -shares[name]):
        if shares[name] < _LEAST:
            continue
        rows.append(
            (
                page.text(_CAUSES[name]),
                page.text(units.format_share(shares[name])),
                page.text(page.glyphs.bar(shares[name], _BAR), "red" if shares[name] >= 0.5 else ""),
            )
        )
    page.table((Column("", "left"), Column(""), Column("", "left")), rows)
