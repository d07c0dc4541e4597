"""The performance problems of the script: what speaks for each, what it costs, what would cure it."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content

from skyline import units
from skyline.report.place import common_base, place
from skyline.report.schema import FindingReport, ProfileReport
from skyline_tui.figures import ARROW, MUTED
from skyline_tui.screens.sheet import Sheet


class Findings(Sheet):
    """All findings, dearest first, each with its evidence."""

    def __init__(self, report: ProfileReport) -> None:
        super().__init__("Findings", Content("\n").join(_lines(report)))


def _lines(report: ProfileReport) -> list[Content]:
    if not report.findings:
        return [Content("No rule found a problem in this profile.")]
    base = common_base(report.script, tuple(line.file for line in report.lines))
    scale = units.time_scale(finding.cost_ms for finding in report.findings)
    lines: list[Content] = []
    for finding in report.findings:
        cost = f"{scale.text(finding.cost_ms)} per iteration" if finding.cost_ms > 0 else ""
        where = place(finding.file, finding.line, base) if finding.file else ""
        lines += [
            Content.assemble(
                (finding.code, "$warning"), "  ", (finding.title, "bold"), *_after(cost), *_after(where)
            ),
            *(Content.styled(f"        {text}", MUTED) for text in _evidence(finding, base)),
            *([Content(f"        {ARROW} {finding.whatif}")] if finding.whatif else []),
            Content(""),
        ]
    return lines[:-1]


def _after(text: str) -> tuple[str, ...]:
    return (f"  {text}",) if text else ()


def _evidence(finding: FindingReport, base: Path) -> list[str]:
    own = finding.file, finding.line
    return [
        one.text
        if not one.file or (one.file, one.line) == own
        else f"{place(one.file, one.line, base)}: {one.text}"
        for one in finding.evidence
    ]
