"""The parts of an iteration: time by phase, GPU work, memory by owner, and the causes of waiting."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from skyline import units
from skyline.report.document import Block, Breakdown, BreakdownPart, Section, said
from skyline.report.place import middle, place_of
from skyline.report.schema import ProfileReport
from skyline.simulate.critical_shares import CriticalPath
from skyline.trace.record import Phase, PhaseTimes

_AT_PEAK = 3
_LEAST = 5e-4
"""The share below which a part is not shown."""
_CAUSES = {
    "cpu": ("host", "tone1"),
    "gpu_compute": ("GPU, computing", "tone2"),
    "gpu_communication": ("GPU, communicating", "tone3"),
    "launch": ("launches", "tone4"),
    "data": ("data loading", "data"),
    "idle": ("nothing recorded", "other"),
}
_OWNERS = {
    "parameters": "tone1",
    "gradients": "tone2",
    "optimizer": "tone3",
    "activations": "tone4",
    "other": "other",
}


def phase_parts(phases: PhaseTimes) -> tuple[BreakdownPart, ...]:
    """The phases that took time."""
    return tuple(
        BreakdownPart(phase.value, phase.value, phases[phase]) for phase in Phase if phases[phase] > 0
    )


def phases_section(report: ProfileReport, base: Path | None) -> Section:
    """Time by phase, the time of the kernels, and the owners of the memory at its peak."""
    total = report.phases.total
    if total <= 0:
        return Section(())
    scale = units.time_scale((total,))
    blocks: list[Block] = [
        Breakdown(
            "Iteration, by phase", phase_parts(report.phases), scale.text, whole="iteration", scale=scale
        )
    ]
    work = report.gpu_phases
    if work is not None and work.total > 0:
        parts = phase_parts(work)
        busy = report.gpu_busy_share
        share = units.format_share(min(1.0, work.total / total) if busy is None else busy)
        named = ", ".join(f"{part.name} {scale.text(part.value)}" for part in parts)
        # Parallel streams may do more than an iteration's worth of work.
        of = max(work.total, total)
        blocks.append(Breakdown("GPU work", parts, scale.text, remark=share, of=of, form="line"))
        blocks += said(f"time of kernels and copies per iteration, all streams added up: {named}")
    blocks += _memory(report, base)
    if gpu_is_known(report):
        blocks += said(
            "time counts for the line and phase of the kernel that runs, or of the host if none does"
        )
    return Section(tuple(blocks))


def _memory(report: ProfileReport, base: Path | None) -> list[Block]:
    sizes = ((name, tone, getattr(report.memory.breakdown, name)) for name, tone in _OWNERS.items())
    parts = tuple(BreakdownPart(name, tone, size) for name, tone, size in sizes if size)
    lines = [
        f"{middle(place_of(line, base), 40)} ({units.format_bytes(line.size_bytes)})"
        for line in report.memory.at_peak
        if line.file
    ]
    taken = f"most of it allocated at {', '.join(lines[:_AT_PEAK])}" if lines else ""
    found = [Breakdown("peak memory", parts, units.format_bytes, form="words")] if parts else []
    return [*found, *said(taken)]


def gpu_is_known(report: ProfileReport) -> bool:
    """True if the critical path contains GPU work."""
    path = report.critical_path
    return report.device.kind != "cpu" and path.gpu_compute + path.gpu_communication + path.launch > 0


def bounds_section(path: CriticalPath, *extra: Block, only_html: bool = False) -> Section:
    """One row per cause, the largest first."""
    shares = {field.name: float(getattr(path, field.name)) for field in fields(path)}
    parts = tuple(
        BreakdownPart(*_CAUSES[name], shares[name])
        for name in sorted(shares, key=lambda name: -shares[name])
        if shares[name] >= _LEAST
    )
    blocks = (Breakdown("Iteration, by cause", parts, of=1.0), *extra)
    return Section(blocks, "Bound by", "shares of the critical path", only="html" if only_html else "")
