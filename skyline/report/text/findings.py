"""Performance problems with their code, their place and their cost."""

from __future__ import annotations

from rich.text import Text

from skyline import units
from skyline.report.schema import ProfileReport
from skyline.report.text.page import GUTTER, INDENT, Page


def render_findings(report: ProfileReport, page: Page) -> None:
    """One row per finding; what would cure it stands below."""
    if not report.findings:
        return
    page.title("Findings", "what each costs per iteration")
    scale = units.time_scale(finding.cost_ms for finding in report.findings)
    costs = [scale.text(finding.cost_ms) for finding in report.findings]
    places = [page.place(finding.file, finding.line, 28) for finding in report.findings]
    cost_width = max(map(len, costs))
    place_width = max(place.cell_len for place in places)
    for finding, place, cost in zip(report.findings, places, costs, strict=True):
        lead = Text.assemble(
            " " * INDENT,
            page.text(finding.code, "yellow"),
            " " * GUTTER,
            place,
            " " * (place_width - place.cell_len + GUTTER),
            page.text(cost.rjust(cost_width)),
            " " * GUTTER,
        )
        page.hanging(lead, f"{finding.title} → {finding.whatif}" if finding.whatif else finding.title)
