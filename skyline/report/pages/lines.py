"""The costliest lines of the source with their cost in each phase, and the page of one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from skyline import units
from skyline.errors import UsageError
from skyline.report.document import (
    Bar,
    Block,
    Breakdown,
    BreakdownPart,
    Cell,
    Column,
    Document,
    Line,
    Paragraph,
    Row,
    Section,
    Stretch,
    TextTable,
    document,
    row,
    said,
)
from skyline.report.place import place_of
from skyline.report.schema import LineReport, ProfileReport
from skyline.source.cells import is_notebook
from skyline.trace.record import Phase

SHOWN = 10
SHOWN_IN_FULL = 30
_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.DATA, Phase.OTHER)
_SHORT = {Phase.FORWARD: "fwd", Phase.BACKWARD: "bwd", Phase.OPTIMIZER: "optim"}
_NARROW_SHARE = 0.03
"""Phases with a smaller share of the iteration are dropped from a narrow table."""
_KERNELS = 3
"""The number of kernels under a line; the JSON report has more."""
_ALWAYS = 1.0 - 1e-9
_CELL = re.compile(r"(?:In ?)?\[?(\d+)\]?")
_EXPLAINED = (
    "Library code counts for the line of your code that called it, backward work for the line whose forward operation "
    "caused it. “kept” is the memory that a line's results hold until their backward work is done."
)


def heat(share: float) -> str:
    """The tone for a time with this share of an iteration."""
    return "bold red" if share >= 0.15 else "bold yellow" if share >= 0.05 else "bold" if share > 0 else ""


def lines_section(report: ProfileReport, base: Path | None, shown: int = SHOWN) -> Section:
    """The ``shown`` costliest lines, the other lines in one row, the unattributed rest, and the sum."""
    lines = [line for line in report.lines if line.file]
    scale = units.time_scale((report.iteration_ms.value,))
    title, aside = "Costliest lines", f"{scale.unit} per iteration"
    if not lines:
        said_why = "no time could be assigned to a line: no operator was called from your code"
        return Section(tuple(said(said_why, tone="")), title, aside)
    dear, others = lines[:shown], lines[shown:]
    rest = [line for line in report.lines if not line.file]
    every = [*lines, *rest]
    totals = {phase: sum(_time(line, phase) for line in every) for phase in _PHASES}
    phases = [phase for phase in _PHASES if _shows(totals[phase], scale)]
    least = _NARROW_SHARE * report.iteration_ms.value
    narrow = sorted((phase for phase in phases if totals[phase] < least), key=lambda phase: totals[phase])
    ranks = {phase: rank for rank, phase in enumerate(narrow, 1)}
    dearest = max(line.self_ms for line in lines)

    def cells(of: Sequence[LineReport], share_tone: str = "") -> tuple[Cell, ...]:
        times = [sum(_time(line, phase) for line in of) for phase in phases]
        parts = tuple(
            Stretch(time / dearest if dearest > 0 else 0.0, phase.value, phase.value)
            for phase, time in zip(phases, times, strict=True)
        )
        kept = sum(line.activation_bytes for line in of)
        return (
            Cell("", graphic=Bar(parts) if len(of) == 1 and of[0].file else None),
            Cell(scale.number(sum(line.self_ms for line in of)), share_tone),
            Cell(units.format_share(sum(line.share for line in of))),
            *(
                Cell(scale.number(time), phase.value) if _shows(time, scale) else Cell("-", "dim")
                for phase, time in zip(phases, times, strict=True)
            ),
            Cell(units.format_bytes(kept) if kept and len(of) == 1 else "", "dim"),
        )

    def source_row(line: LineReport) -> Row:
        where = Cell(place_of(line, base), file=line.file, line=line.line)
        source = Cell(line.source.strip(), details=_parts(line, scale))
        return Row((where, source, *cells([line], heat(line.share))), _kernels(report, line))

    rows = [source_row(line) for line in dear]
    if others:
        label = f"{len(others)} more line{'s' if len(others) > 1 else ''}"
        rows.append(Row((Cell(label, "dim"), Cell(""), *cells(others))))
    if rest:
        rows.append(Row((Cell("unattributed", "dim"), Cell("outside your code", "dim"), *cells(rest))))
    rows.append(Row((Cell("iteration"), Cell(""), *cells(every))))
    columns = (
        Column("", left=True, cut="path"),
        Column("", left=True, cut="end"),
        Column("", left=True, only="html"),
        Column(scale.unit),
        Column("share"),
        *(
            Column(
                phase.value,
                spared=ranks.get(phase, 0),
                below=f"not shown: {phase.value}, {scale.text(totals[phase])}",
                short=_SHORT.get(phase, ""),
            )
            for phase in phases
        ),
        Column("kept", only="html"),
    )
    table = TextTable(columns, tuple(rows), sums=len(rows) - len(dear))
    return Section((table,), title, aside, _EXPLAINED)


def _kernels(report: ProfileReport, line: LineReport) -> tuple[Line, ...]:
    """The longest kernels of a line with their time on the GPU and launches per iteration."""
    own = [kernel for kernel in report.kernels if (kernel.file, kernel.line) == (line.file, line.line)]
    return tuple(
        Line(
            (
                Cell("  on the GPU: "),
                Cell(kernel.name.removeprefix("void "), "dim"),
                Cell(
                    f"  {units.format_ms(kernel.gpu_ms)}, {kernel.calls:.3g} "
                    f"launch{'es' if kernel.calls != 1 else ''}",
                    "dim",
                ),
            )
        )
        for kernel in own[:_KERNELS]
    )


def _parts(line: LineReport, scale: units.UnitScale) -> tuple[str, ...]:
    return tuple(
        f"{scale.text(part.self_ms)} {' · '.join(name for name in (part.module, part.callee) if name)}"
        for part in line.parts
        if _shows(part.self_ms, scale)
    )


def _time(line: LineReport, phase: Phase) -> float:
    return float(getattr(line, f"{phase.value}_ms", 0.0))


def _shows(value_ms: float, scale: units.UnitScale) -> bool:
    return bool(scale.number(value_ms).strip("-0."))


def find_line(report: ProfileReport, place: str) -> LineReport:
    """The line that ``FILE:LINE``, ``LINE`` (of the script) or ``In [7]:3`` names.

    Raises UsageError if no cost is attributed to it.
    """
    name, _, number = place.rpartition(":")
    if not number.isdigit():
        raise UsageError(f"{place} names no line", hint="Write --line 42 or --line model.py:42.")
    if is_notebook(report.script) and (cell := _CELL.fullmatch(name)):
        wanted = f"In [{cell[1]}]:{number}"
        for line in report.lines:
            if line.cell == wanted:
                return line
        raise UsageError(f"No time went to {wanted}", hint="`skyline show` lists the costliest lines.")
    wanted = name or report.script
    for line in report.lines:
        if line.file and line.line == int(number) and _is_file(line.file, wanted):
            return line
    raise UsageError(
        f"No time went to line {number} of {Path(wanted).name}",
        hint="`skyline show` lists the costliest lines, its --json all of them.",
    )


def line_page(report: ProfileReport, line: LineReport, base: Path | None) -> Document:
    """All facts of the profile about one line: phases, memory, arithmetic, and its calls."""
    scale = units.time_scale((report.iteration_ms.value,))
    parts = [BreakdownPart(phase.value, phase.value, _time(line, phase)) for phase in Phase]
    shown = tuple(part for part in parts if _shows(part.value, scale))
    total = f"{scale.text(line.self_ms)}, {units.format_share(line.share)} of an iteration"
    blocks: list[Block] = [
        Paragraph(line.source.strip()),
        Breakdown("", shown, scale.text, of=line.self_ms or 1.0),
        *said(f"in all {total}", tone="bold"),
        *said(*_remarks(line)),
    ]
    calls = [part for part in line.parts if _shows(part.self_ms, scale)]
    rows = tuple(row(scale.number(part.self_ms), part.module, part.callee) for part in calls)
    columns = (
        Column(scale.unit),
        Column("module", left=True, cut="middle"),
        Column("calls", left=True, cut="middle"),
    )
    return document(
        Section(tuple(blocks), place_of(line, base), line.function),
        Section((TextTable(columns, rows),), "Of which", f"{scale.unit} per iteration") if rows else None,
    )


def _remarks(line: LineReport) -> list[str]:
    found: list[str] = []
    if line.calls:
        count = "once" if line.calls == 1 else f"{units.format_count(line.calls)} times"
        found.append(f"runs {count} per iteration")
    if line.frequency < _ALWAYS:
        found.append(f"ran in {units.format_share(line.frequency)} of the recorded iterations only")
    if line.gpu_ms > 0:
        found.append(
            f"its kernels keep the GPU busy for {units.format_ms(line.gpu_ms)}, in parallel with the times above"
        )
    if line.flops:
        found.append(f"{line.flops / 1e9:.3g} billion floating-point operations, forward and backward")
    if line.activation_bytes:
        found.append(f"keeps {units.format_bytes(line.activation_bytes)} for its backward work")
    if line.peak_bytes:
        found.append(f"holds {units.format_bytes(line.peak_bytes)} when memory is at its peak")
    return found


def _is_file(path: str, wanted: str) -> bool:
    given = Path(wanted)
    if path == str(given) or Path(path).parts[-len(given.parts) :] == given.parts:
        return True
    try:
        return Path(path).resolve() == given.resolve()
    except OSError:
        return False
