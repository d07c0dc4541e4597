"""Two profiles side by side."""

from __future__ import annotations

from pathlib import Path, PurePath

from skyline import units
from skyline.report.basis import when
from skyline.report.diff import DiffReport, LineChange, SideReport
from skyline.report.document import (
    Cell,
    Column,
    Document,
    Line,
    Paragraph,
    Row,
    Section,
    TextTable,
    document,
    paragraphs,
    row,
    said,
)
from skyline.report.place import place, shown_from

SHOWN = 10
_TONES = {"faster": "bold green", "slower": "bold red", "within noise": "bold"}


def diff_page(report: DiffReport, *, base: Path | None = None) -> Document:
    """The verdict with its noise band, then phases and the lines that changed most."""
    files = tuple(line.file for line in report.lines)
    base = shown_from(base, report.after.script, files)
    sides = tuple(
        Paragraph(_side(side), lead=(Cell(f"{name:<8}", "dim"),))
        for name, side in (("before", report.before), ("after", report.after))
    )
    return document(
        Section(sides),
        _verdict(report),
        _phases(report),
        _lines(report, base),
        paragraphs("Notes", report.notes),
    )


def _side(side: SideReport) -> str:
    parts = [
        f"{PurePath(side.script).name}, {when(side.created)}",
        units.format_ms_interval(side.iteration_ms),
    ]
    if side.throughput is not None:
        parts.append(units.format_throughput_interval(side.throughput))
    parts.append(f"peak {units.format_bytes(side.peak_bytes.value)}")
    if side.batch_size is not None:
        parts.append(f"batch {side.batch_size}")
    return " · ".join(parts)


def _verdict(report: DiffReport) -> Section:
    subject = "time per sample" if report.per_sample else "time per iteration"
    verdict = (
        Cell(report.verdict, _TONES[report.verdict]),
        Cell(f"   {subject} {units.format_share_delta(report.change)}"),
        Cell(f", noise ±{report.noise * 100:.1f} %", "dim"),
    )
    change = (
        f"{units.format_ms_delta(report.change_ms)} per iteration · "
        f"peak memory {units.format_bytes_delta(report.peak_change_bytes)}"
    )
    return Section((Line(verdict), Line((Cell(change),))))


def _phases(report: DiffReport) -> Section:
    times = [(phase.phase, phase.before_ms, phase.after_ms) for phase in report.phases]
    scale = units.time_scale(time for _, *pair in times for time in pair)
    sums = ("iteration", sum(before for _, before, _ in times), sum(after for _, _, after in times))
    rows = tuple(
        row(name, scale.number(before), scale.number(after), _change(after - before, scale))
        for name, before, after in (*times, sums)
    )
    columns = (Column("", left=True), *map(Column, ("before", "after", "change")))
    return Section((TextTable(columns, rows, sums=1),), "Phases", f"{scale.unit} per iteration")


def _lines(report: DiffReport, base: Path) -> Section:
    scale = units.time_scale((report.before.iteration_ms.value, report.after.iteration_ms.value))
    changed = [line for line in report.lines if scale.number(line.change_ms).strip("-0.")]
    heading = ("Lines that changed most", f"{scale.unit} per iteration")
    if not changed:
        none = "no line's cost changed by as much as the last digit shown"
        return Section(tuple(said(none, tone="")), *heading)

    def line_row(line: LineChange) -> Row:
        number = line.line_after or line.line_before
        return row(
            Cell(place(line.file, number, base), file=line.file, line=number),
            line.source.strip(),
            scale.number(line.before_ms) if line.line_before else "new",
            scale.number(line.after_ms) if line.line_after else "gone",
            _change(line.change_ms, scale),
        )

    columns = (
        Column("", left=True, cut="path"),
        Column("", left=True, cut="end"),
        *map(Column, ("before", "after", "change")),
    )
    more = f"{len(changed) - SHOWN} more lines changed" if len(changed) > SHOWN else ""
    return Section((TextTable(columns, tuple(map(line_row, changed[:SHOWN]))), *said(more)), *heading)


def _change(change_ms: float, scale: units.UnitScale) -> Cell:
    text = scale.signed(change_ms)
    return Cell(text, "green" if text.startswith("-") else "red" if text.startswith("+") else "dim")
