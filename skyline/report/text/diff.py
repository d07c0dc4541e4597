"""Two profiles side by side on the terminal."""

from __future__ import annotations

from pathlib import Path, PurePath

from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.report.basis import when
from skyline.report.diff import DiffReport, LineChange, SideReport
from skyline.report.place import shown_from
from skyline.report.text.lines import place_column
from skyline.report.text.page import GUTTER, INDENT, Column, Page, column_width

SHOWN = 10
_STYLES = {"faster": "bold green", "slower": "bold red", "within noise": "bold"}


def render_diff(report: DiffReport, console: Console, *, base: Path | None = None) -> None:
    """The verdict with its noise band, then phases and the lines that changed most."""
    files = tuple(line.file for line in report.lines)
    page = Page.on(console, shown_from(base, report.after.script, files))
    page.blank()
    for name, side in (("before", report.before), ("after", report.after)):
        page.hanging(Text.assemble(" " * INDENT, page.text(f"{name:<8}", "dim")), _side(side))
    page.blank()
    _render_verdict(report, page)
    page.blank()
    _render_phases(report, page)
    page.blank()
    _render_lines(report, page)
    page.remarks("Notes", report.notes)
    page.blank()


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


def _render_verdict(report: DiffReport, page: Page) -> None:
    subject = "time per sample" if report.per_sample else "time per iteration"
    page.line(
        page.text(report.verdict, _STYLES[report.verdict]),
        page.text(f"   {subject} {units.format_share_delta(report.change)}"),
        page.text(f", noise ±{report.noise * 100:.1f} %", "dim"),
    )
    page.line(
        page.text(
            f"{units.format_ms_delta(report.change_ms)} per iteration · "
            f"peak memory {units.format_bytes_delta(report.peak_change_bytes)}"
        )
    )


def _render_phases(report: DiffReport, page: Page) -> None:
    times = [time for phase in report.phases for time in (phase.before_ms, phase.after_ms)]
    scale = units.time_scale(times)
    page.title("Phases", f"{scale.unit} per iteration")
    rows: list[tuple[Text, ...]] = [
        (
            page.text(phase.phase),
            page.text(scale.number(phase.before_ms)),
            page.text(scale.number(phase.after_ms)),
            _change(phase.after_ms - phase.before_ms, scale, page),
        )
        for phase in report.phases
    ]
    before = sum(phase.before_ms for phase in report.phases)
    after = sum(phase.after_ms for phase in report.phases)
    total = (page.text("iteration"), page.text(scale.number(before)), page.text(scale.number(after)))
    rows.append((*total, _change(after - before, scale, page)))
    columns = (Column("", "left"), Column("before"), Column("after"), Column("change"))
    page.table(columns, rows, sums=1)


def _render_lines(report: DiffReport, page: Page) -> None:
    scale = units.time_scale((report.before.iteration_ms.value, report.after.iteration_ms.value))
    changed = [line for line in report.lines if scale.number(line.change_ms).strip("-0.")]
    page.title("Lines that changed most", f"{scale.unit} per iteration")
    if not changed:
        page.paragraph("no line's cost changed by as much as the last digit shown")
        return
    shown = changed[:SHOWN]
    numbers = [
        (
            page.text(scale.number(line.before_ms) if line.line_before else "new"),
            page.text(scale.number(line.after_ms) if line.line_after else "gone"),
            _change(line.change_ms, scale, page),
        )
        for line in shown
    ]
    titles = ("before", "after", "change")
    taken = [column_width(title, [row[i] for row in numbers]) + GUTTER for i, title in enumerate(titles)]
    room = page.width - sum(taken) - GUTTER
    place_width = place_column([_place(line, page, 999).cell_len for line in shown], room)
    rows = [
        (_place(line, page, place_width), page.cut(line.source.strip(), room - place_width), *cells)
        for line, cells in zip(shown, numbers, strict=True)
    ]
    columns = (Column("", "left"), Column("", "left"), *(Column(title) for title in titles))
    page.table(columns, rows)
    if len(changed) > SHOWN:
        page.paragraph(f"{len(changed) - SHOWN} more lines changed", style="dim")


def _place(line: LineChange, page: Page, width: int) -> Text:
    return page.place(line.file, line.line_after or line.line_before, width)


def _change(change_ms: float, scale: units.UnitScale, page: Page) -> Text:
    text = scale.signed(change_ms)
    return page.text(text, "green" if text.startswith("-") else "red" if text.startswith("+") else "dim")
