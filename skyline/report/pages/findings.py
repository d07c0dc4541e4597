"""Performance problems with their code, their place and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skyline import units
from skyline.report.document import Cell, Paragraph, Section
from skyline.report.place import middle, place_of
from skyline.report.schema import FindingReport

_EVIDENCE = 3
"""Lines of evidence below a finding; the HTML page, the JSON and the editor show all."""


def findings_section(
    findings: Sequence[FindingReport], base: Path | None, unit: str = "iteration", *, full: bool = False
) -> Section | None:
    """A paragraph per finding with its cure, and its evidence below it."""
    if not findings:
        return None
    scale = units.time_scale(finding.cost_ms for finding in findings)
    costs = [scale.text(finding.cost_ms) if finding.cost_ms > 0 else "" for finding in findings]
    places = [middle(place_of(finding, base), 28) for finding in findings]
    cost_width, place_width = max(map(len, costs)), max(map(len, places))
    blocks: list[Paragraph] = []
    for finding, where, cost in zip(findings, places, costs, strict=True):
        lead = (
            Cell(finding.code, "yellow"),
            Cell("  "),
            Cell(where, file=finding.file, line=finding.line),
            Cell(f"{' ' * (place_width - len(where))}  {cost.rjust(cost_width)}  "),
        )
        cure = f" → {finding.whatif}" if finding.whatif else ""
        blocks.append(Paragraph(finding.title + cure, lead=lead))
        for evidence in finding.evidence if full else finding.evidence[:_EVIDENCE]:
            own = (evidence.file, evidence.line) in (("", 0), (finding.file, finding.line))
            at = "" if own else f"{middle(place_of(evidence, base), 28)}: "
            blocks.append(Paragraph(f"{at}{evidence.text}", "dim", indent=len(finding.code) + 2))
    return Section(tuple(blocks), "Findings", f"cost of each per {unit}")
