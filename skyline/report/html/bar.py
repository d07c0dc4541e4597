"""Parts of a whole, laid end to end in one bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from skyline import units
from skyline.report.schema import CriticalPathReport, MemoryBreakdown, ProfileReport
from skyline.trace.phase import Phase


@dataclass(frozen=True, slots=True)
class BarSegment:
    """One stretch of a bar: ``kind`` chooses its colour, ``width`` is per cent of the bar."""

    name: str
    kind: str
    amount: str
    share: str
    width: float


@dataclass(frozen=True, slots=True)
class Bar:
    """A titled bar whose parts fill it."""

    title: str
    total: str
    parts: tuple[BarSegment, ...]


def bars(report: ProfileReport) -> tuple[Bar, ...]:
    """Time by phase, time by what the iteration waits for, and memory by owner."""
    time = units.time_scale((report.phases.total,))
    phases = [(phase.value, phase.value, report.phases[phase]) for phase in Phase]
    waits = [(name, kind, share) for name, kind, share in _waits(report.critical_path) if share > 0]
    owners = _owners(report.memory.breakdown)
    found = [Bar("Iteration, by phase", time.text(report.phases.total), _parts(phases, time.text))]
    if waits:
        found.append(Bar("Iteration, by what it waits for", "", _parts(waits, lambda share: "")))
    if any(size for _, _, size in owners):
        peak = units.format_bytes(report.memory.peak_bytes.value)
        found.append(Bar("Peak memory, by owner", peak, _parts(owners, units.format_bytes)))
    return tuple(found)


def _waits(path: CriticalPathReport) -> list[tuple[str, str, float]]:
    return [
        ("CPU", "tone1", path.cpu),
        ("GPU compute", "tone2", path.gpu_compute),
        ("GPU communication", "tone3", path.gpu_communication),
        ("kernel launches", "tone4", path.launch),
        ("data", "data", path.data),
        ("idle", "other", path.idle),
    ]


def _owners(breakdown: MemoryBreakdown) -> list[tuple[str, str, float]]:
    return [
        ("parameters", "tone1", breakdown.parameters),
        ("gradients", "tone2", breakdown.gradients),
        ("optimizer", "tone3", breakdown.optimizer),
        ("activations", "tone4", breakdown.activations),
        ("other", "other", breakdown.other),
    ]


def _parts(
    amounts: list[tuple[str, str, float]], amount_of: Callable[[float], str]
) -> tuple[BarSegment, ...]:
    total = sum(amount for _, _, amount in amounts)
    parts: list[BarSegment] = []
    for name, kind, amount in amounts:
        if amount <= 0 or total <= 0:
            continue
        width = amount / total * 100
        share = units.format_share(amount / total)
        parts.append(BarSegment(name, kind, amount_of(amount), share, round(width, 3)))
    return tuple(parts)
