"""The costliest lines as rows of a table, each with a bar of its phases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skyline import units
from skyline.report.place import middle, place
from skyline.report.schema import LineReport, ProfileReport
from skyline.trace.phase import Phase

SHOWN = 30
PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.DATA, Phase.OTHER)


@dataclass(frozen=True, slots=True)
class CostRow:
    """One row: ``times`` follow ``CostTable.phases`` and are empty where nothing shows."""

    place: str
    title: str
    source: str
    anchor: str
    total: str
    share: str
    times: tuple[str, ...]
    stretches: tuple[tuple[str, float], ...]
    """Phase and per cent of the costliest line's time."""
    memory: str
    parts: tuple[tuple[str, str], ...] = ()
    """Time and name of the calls of the line, costliest first."""


@dataclass(frozen=True, slots=True)
class CostTable:
    """The costliest lines, then the omitted ones, then the unattributed rest, then the sum."""

    unit: str
    phases: tuple[str, ...]
    rows: tuple[CostRow, ...]
    sums: tuple[CostRow, ...]


def cost_table(report: ProfileReport, base: Path, anchors: frozenset[tuple[str, int]]) -> CostTable:
    """The table; a row links into the listing where its line is shown there (``anchors``)."""
    scale = units.time_scale((report.iteration_ms.value,))
    lines = [line for line in report.lines if line.file]
    rest = [line for line in report.lines if not line.file]
    dear, others = lines[:SHOWN], lines[SHOWN:]
    phases = tuple(
        p for p in PHASES if scale.number(sum(_time(line, p) for line in report.lines)).strip("0.")
    )
    dearest = max((line.self_ms for line in lines), default=0.0)

    def row(lines: list[LineReport], name: str, anchor: str = "") -> CostRow:
        times = [sum(_time(line, phase) for line in lines) for phase in phases]
        total = sum(line.self_ms for line in lines)
        one = lines[0] if len(lines) == 1 else None
        memory = sum(line.activation_bytes for line in lines)
        return CostRow(
            place=middle(name, 34) if one and one.file else name,
            title=_title(name, one),
            source=one.source.strip() if one else "",
            anchor=anchor,
            total=scale.number(total),
            share=units.format_share(sum(line.share for line in lines)),
            times=tuple(scale.number(time) if scale.number(time).strip("0.") else "" for time in times),
            stretches=tuple(
                (phase.value, round(time / dearest * 100, 2))
                for phase, time in zip(phases, times, strict=True)
                if one and one.file and dearest > 0 and time > 0
            ),
            memory=units.format_bytes(memory) if memory else "",
            parts=_parts(one, scale) if one and one.file else (),
        )

    rows = [
        row(
            [line],
            place(line.file, line.line, base),
            anchor_of(line.file, line.line, base) if (line.file, line.line) in anchors else "",
        )
        for line in dear
    ]
    sums: list[CostRow] = []
    if others:
        sums.append(row(others, f"{len(others)} more line{'s' if len(others) > 1 else ''}"))
    if rest:
        sums.append(row(rest, "unattributed: caused by no line of your code"))
    sums.append(row(lines + rest, "iteration"))
    return CostTable(scale.unit, tuple(phase.value for phase in phases), tuple(rows), tuple(sums))


def anchor_of(file: str, line: int, base: Path) -> str:
    """The id of a line in the listing."""
    name = "".join(letter if letter.isalnum() else "-" for letter in place(file, 0, base))
    return f"{name}-L{line}"


def _parts(line: LineReport, scale: units.UnitScale) -> tuple[tuple[str, str], ...]:
    return tuple(
        (scale.number(part.self_ms), " · ".join(name for name in (part.module, part.callee) if name))
        for part in line.parts
        if scale.number(part.self_ms).strip("0.")
    )


def _title(name: str, line: LineReport | None) -> str:
    if line is None or not line.file:
        return name
    calls = f"{units.format_count(line.calls)} operator calls per iteration" if line.calls else ""
    work = f"{line.flops / 1e9:.3g} billion operations" if line.flops else ""
    peak = f"{units.format_bytes(line.peak_bytes)} live at the memory peak" if line.peak_bytes else ""
    return ", ".join(part for part in (name, line.function, calls, work, peak) if part)


def _time(line: LineReport, phase: Phase) -> float:
    return float(getattr(line, f"{phase.value}_ms", 0.0))
