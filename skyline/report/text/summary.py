"""The whole page, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from skyline import units
from skyline.report.basis import (
    basis_parts,
    command_line,
    energy_remark,
    iteration_remark,
    memory_remark,
    prediction_basis,
)
from skyline.report.effect_summary import allowed, prevented, protected_by
from skyline.report.headline import busy_words
from skyline.report.place import shown_from
from skyline.report.schema import BaselineReport, BestReport, ProfileReport, WhatIfReport
from skyline.report.speedup import baseline_doubt, one_off_words, speedup_words
from skyline.report.text.curve import render_curve
from skyline.report.text.findings import render_findings
from skyline.report.text.lines import render_lines
from skyline.report.text.page import Page
from skyline.report.text.phases import render_bounds, render_phases
from skyline.report.text.whatifs import memory_change, render_estimates


@dataclass(frozen=True, slots=True)
class Saved:
    """Where the profile and its page were written."""

    profile: Path | None = None
    html: Path | None = None


def render(
    report: ProfileReport,
    whatifs: WhatIfReport | None,
    console: Console,
    *,
    base: Path | None = None,
    saved: Saved | None = None,
) -> None:
    """Print a profile and what could be changed.

    ``base`` is the folder from which paths are shown, such as the working directory of a person who will
    click on them; without one, or where the script lies elsewhere, it is the folder of the script.
    """
    files = tuple(line.file for line in report.lines)
    page = Page.on(console, shown_from(base, report.script, files))
    page.blank()
    render_header(report, page)
    page.blank()
    render_phases(report, page)
    if _gpu_is_known(report):
        page.paragraph(
            "time counts for the line and phase of the kernel that runs, or of the host if none does",
            style="dim",
        )
        page.blank()
        render_bounds(report.critical_path, page)
    page.blank()
    render_lines(report, page)
    if report.curve or report.batch_size.reason:
        page.blank()
        render_curve(report, page)
    if whatifs is not None:
        page.blank()
        render_estimates(whatifs, page)
    if report.findings:
        page.blank()
        render_findings(report.findings, page)
    page.remarks("Notes", report.notes)
    page.remarks("Basis of the prediction", prediction_basis(report))
    render_effects(report, page)
    if saved is not None and (saved.profile or saved.html):
        page.blank()
        if saved.profile:
            page.line(page.text("saved  ", "dim"), page.place(str(saved.profile), 0, 4096))
        if saved.html:
            page.line(page.text("page   ", "dim"), page.place(str(saved.html), 0, 4096))
    page.blank()


def _gpu_is_known(report: ProfileReport) -> bool:
    path = report.critical_path
    return report.device.kind != "cpu" and path.gpu_compute + path.gpu_communication + path.launch > 0


def render_whatifs(
    report: WhatIfReport,
    console: Console,
    *,
    subject: Sequence[str] = (),
    script: str = "SCRIPT",
    detail: bool = True,
) -> None:
    """Print the answers to some what-ifs; the lines of ``subject`` say what they rest on."""
    page = Page.on(console, None)
    page.blank()
    for line in subject:
        page.paragraph(line, style="dim")
    if subject:
        page.blank()
    render_estimates(report, page, script=script, detail=detail)
    if report.best is not None:
        page.blank()
        render_best(report.best, report.baseline, page, script=script)
    page.blank()


def render_effects(report: ProfileReport, page: Page) -> None:
    """At most three lines; none where the script had no side effects."""
    rows = (("prevented", prevented(report.side_effects)), ("allowed", allowed(report.side_effects)))
    rows = [(title, text) for title, text in rows if text]
    if rows and report.protection is not None:
        rows.append(("protection", protected_by(report.protection)))
    if rows:
        page.blank()
    for title, text in rows:
        page.paragraph(f"{title}: {text}", style="dim")


_ALLOWED = {
    "exact": "that give the same results",
    "numerics": "that may differ in rounding",
    "convergence": "of any kind",
}


def render_best(best: BestReport, baseline: BaselineReport, page: Page, *, script: str) -> None:
    """The combination, its effect and the command that makes it; or the reason why there is none."""
    limit = "" if best.memory_bytes is None else f", within {units.format_bytes(best.memory_bytes)}"
    page.title("Best combination", f"of {best.tried} simulated, {_ALLOWED[best.semantics]}{limit}")
    for left_out in best.left_out:
        page.paragraph(f"left out: {left_out}", indent=1, style="dim")
    found = best.estimate
    if found is None or not best.choices:
        page.paragraph(best.reason or "no change is predicted to be worth making", indent=1)
        return
    page.paragraph(" ".join(best.choices), indent=1, style="bold")
    before = units.format_ms(baseline.iteration_ms.value)
    facts = [
        f"{units.format_ms_interval(found.iteration_ms)} per iteration, was {before}",
        f"speed {speedup_words(found.speedup, found.speedup_range)}",
        f"peak memory {units.format_bytes(found.peak.value)} ({memory_change(found, baseline)})",
    ]
    page.paragraph(" · ".join(facts), indent=3)
    if found.extrapolated:
        page.paragraph("extrapolated: outside the measured range", indent=3, style="yellow")
    if doubt := baseline_doubt(found.speedup, baseline.iteration_ms):
        page.paragraph(f"the speed is {doubt}", indent=3, style="yellow")
    if once := one_off_words(found.one_off_s, found.break_even_iterations):
        page.paragraph(f"once: {once}", indent=3)
    for assumption in found.assumptions:
        page.paragraph(f"assumes: {assumption}", indent=3, style="dim")
    words = " ".join(best.choices)
    if found.rewrite == "available":
        page.paragraph(f"make it: skyline apply {script} {words}", indent=3, style="dim")
        page.paragraph(f"check it: skyline verify {script} {words}", indent=3, style="dim")
    else:
        reason = f": {found.rewrite_reason}" if found.rewrite_reason else ""
        page.paragraph(f"not all changes can be made automatically{reason}", indent=3, style="dim")


def render_header(report: ProfileReport, page: Page) -> None:
    """The headline numbers and what they rest on; a prediction's basis follows its numbers."""
    basis = " · ".join(basis_parts(report))
    title = Text.assemble(page.text("Skyline", "bold cyan"), "   ", page.text(command_line(report), "bold"))
    if report.mode == "predicted":
        page.line(title)
    elif title.cell_len + 3 + len(page.glyphs.text(basis)) <= page.width:
        page.line(title, Text("   "), page.text(basis, "dim"))
    else:
        page.line(title)
        page.paragraph(basis, style="dim")
    page.blank()
    for row in _packed(_figures(report, page), page.width):
        page.line(*row)
    if words := busy_words(report):
        page.paragraph(words, style="yellow")
    if report.mode == "predicted":
        page.paragraph(basis, style="dim")
    if remark := iteration_remark(report):
        page.paragraph(remark, style="dim")
    if remark := memory_remark(report):
        page.paragraph(remark, style="dim")
    if remark := energy_remark(report):
        page.paragraph(remark, style="dim")


def _figures(report: ProfileReport, page: Page) -> list[Text]:
    predicted = " (predicted)" if report.mode == "predicted" else ""
    memory = units.format_bytes_of(report.memory.peak_bytes.value, report.memory.capacity_bytes)
    figures = [_figure(page, units.format_ms_interval(report.iteration_ms), f" per iteration{predicted}")]
    if report.throughput is not None:
        figures.append(_figure(page, units.format_throughput_interval(report.throughput)))
    else:
        figures.append(page.text("samples/s unknown: no batch dimension was seen", "dim"))
    figures.append(_figure(page, memory, "", "peak "))
    if report.mode == "measured":
        figures.append(_figure(page, units.format_share(report.replay_error), "", "simulation error "))
    return figures


def _figure(page: Page, number: str, after: str = "", before: str = "") -> Text:
    return Text.assemble(page.text(before, "dim"), page.text(number, "bold"), page.text(after, "dim"))


def _packed(figures: list[Text], width: int, gap: int = 4) -> list[list[Text]]:
    """As many figures on each line as fit whole."""
    rows: list[list[Text]] = [[]]
    used = 0
    for figure in figures:
        if rows[-1] and used + gap + figure.cell_len > width:
            rows.append([])
            used = 0
        if rows[-1]:
            rows[-1].append(Text(" " * gap))
            used += gap
        rows[-1].append(figure)
        used += figure.cell_len
    return rows
