"""Performance problems with their code, their place and their cost."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from skyline import units
from skyline.report.schema import FindingReport
from skyline.report.text.page import GUTTER, INDENT, Page

_EVIDENCE = 3
"""As many lines of evidence are printed below a finding; all of it is in the JSON and in the editor."""


def render_findings(findings: Sequence[FindingReport], page: Page, unit: str = "iteration") -> None:
    """One row per finding with what would cure it, below it what speaks for it."""
    if not findings:
        return
    page.title("Findings", f"what each costs per {unit}")
    scale = units.time_scale(finding.cost_ms for finding in findings)
    costs = [scale.text(finding.cost_ms) if finding.cost_ms > 0 else "" for finding in findings]
    places = [page.place(finding.file, finding.line, 28) for finding in findings]
    cost_width = max(map(len, costs))
    place_width = max(place.cell_len for place in places)
    for finding, place, cost in zip(findings, places, costs, strict=True):
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
        for evidence in finding.evidence[:_EVIDENCE]:
            own = (evidence.file, evidence.line) in (("", 0), (finding.file, finding.line))
            where = "" if own else f"{page.place(evidence.file, evidence.line, 28).plain}: "
            page.paragraph(f"{where}{evidence.text}", indent=INDENT + len(finding.code) + GUTTER, style="dim")
