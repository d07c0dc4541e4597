"""The top of the page: what was measured, and the four numbers that sum it up."""

from __future__ import annotations

from rich.text import Text

from skyline import units
from skyline.report.basis import basis_parts, command_line, energy_remark, iteration_remark, memory_remark
from skyline.report.headline import busy_words
from skyline.report.schema import ProfileReport
from skyline.report.text.page import Page


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
