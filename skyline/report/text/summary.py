"""The whole page, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from skyline.report.basis import prediction_basis
from skyline.report.place import shown_from
from skyline.report.schema import ProfileReport, WhatIfReport
from skyline.report.text.best import render_best
from skyline.report.text.bounds import render_bounds
from skyline.report.text.curve import render_curve
from skyline.report.text.effects import render_effects
from skyline.report.text.findings import render_findings
from skyline.report.text.header import render_header
from skyline.report.text.lines import render_lines
from skyline.report.text.page import Page
from skyline.report.text.phases import render_phases
from skyline.report.text.whatifs import render_estimates


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
