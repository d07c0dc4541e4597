"""Diagnostics: findings, and the error of the last run."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types
from pygls.workspace import PositionCodec

from skyline import units
from skyline.lazy_dataclass import dataclass
from skyline.report.schema import FindingReport
from skyline.settings.model import DiagnosticSettings
from skyline.source.line_map import line_map
from skyline.source.text import SourceText
from skyline_lsp import convert
from skyline_lsp.changes import ApplicableChange
from skyline_lsp.settings import SettingsBook
from skyline_lsp.state import Scripts, ScriptState
from skyline_lsp.texts import Texts

SOURCE = "skyline"
RUN_FAILED = "run-failed"
PAGES = "https://github.com/skyline-profiler/skyline/tree/main/docs/findings"
"""Address of the rules' documentation pages."""


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding of a script with its line in the current text, counted from 1."""

    state: ScriptState
    finding: FindingReport
    text: SourceText
    line: int


def by_file(
    scripts: Scripts, texts: Texts, codec: PositionCodec, book: SettingsBook
) -> dict[str, list[types.Diagnostic]]:
    """All current diagnostics by file. Editing a line removes its diagnostics."""
    found: dict[str, list[types.Diagnostic]] = {}
    for placed in placed_findings(scripts, texts):
        settings = book.at(placed.finding.file)
        if settings.enable and is_selected(placed.finding.code, settings.diagnostics):
            diagnostic = of_finding(placed, codec, texts, settings.diagnostics)
            found.setdefault(placed.finding.file, []).append(diagnostic)
    for state in scripts:
        if not book.at(state.path).enable:
            continue
        for path, diagnostic in _error(state, texts, codec):
            found.setdefault(path, []).append(diagnostic)
    return found


def placed_findings(scripts: Scripts, texts: Texts) -> Iterator[PlacedFinding]:
    """The findings whose lines are unchanged. In a file of several scripts, the findings of the latest profile."""
    for state in scripts:
        prepared = state.prepared
        for finding in prepared.report.findings if prepared else ():
            before = prepared.sources.get(finding.file) if prepared else None
            text = texts.shown(finding.file) if before else None
            if before is None or text is None or scripts.covering(finding.file) is not state:
                continue
            line = line_map(before.text, text.text)(finding.line)
            if line is not None:
                yield PlacedFinding(state, finding, text, line)


def is_selected(code: str, settings: DiagnosticSettings) -> bool:
    """True if the settings show findings with this code."""
    return code.startswith(settings.select) and not code.startswith(settings.ignore)


def of_finding(
    placed: PlacedFinding, codec: PositionCodec, texts: Texts, settings: DiagnosticSettings
) -> types.Diagnostic:
    """The diagnostic for a finding, with its evidence as related information."""
    finding = placed.finding
    cost = f" ({units.format_ms(finding.cost_ms)} per iteration)" if finding.cost_ms > 0 else ""
    return types.Diagnostic(
        range=convert.line_range(codec, placed.text, placed.line),
        message=f"{finding.title}{cost}",
        severity=_severity(placed, settings),
        code=finding.code,
        code_description=types.CodeDescription(f"{PAGES}/{finding.code}.md"),
        source=SOURCE,
        related_information=_related(placed, codec, texts) or None,
        data={"finding": f"{finding.code}:{finding.file}:{finding.line}", "whatif": finding.whatif},
    )


def _severity(placed: PlacedFinding, settings: DiagnosticSettings) -> types.DiagnosticSeverity:
    """Warning for a costly finding with an edit that cures it, otherwise information."""
    prepared = placed.state.prepared
    whole_ms = prepared.report.iteration_ms.value if prepared else 0.0
    curable = prepared is not None and any(
        change.edits and cures(change, placed.finding) for change in prepared.changes
    )
    if curable and whole_ms > 0 and placed.finding.cost_ms / whole_ms > settings.warn_at:
        return types.DiagnosticSeverity.Warning
    return types.DiagnosticSeverity.Information


def cures(change: ApplicableChange, finding: FindingReport) -> bool:
    """True if the change is the cure that the finding names."""
    if finding.whatif is None:
        return False
    name, _, value = finding.whatif.partition("=")
    return change.estimate.name == name and value in ("", change.estimate.value)


def _related(
    placed: PlacedFinding, codec: PositionCodec, texts: Texts
) -> list[types.DiagnosticRelatedInformation]:
    """The evidence at its own line if that is unchanged. Evidence without a line is at the line of the finding."""
    finding, prepared = placed.finding, placed.state.prepared
    related: list[types.DiagnosticRelatedInformation] = []
    for evidence in finding.evidence:
        file, text, line = finding.file, placed.text, placed.line
        if evidence.file:
            before = prepared.sources.get(evidence.file) if prepared else None
            shown = texts.shown(evidence.file) if before else None
            moved = line_map(before.text, shown.text)(evidence.line) if before and shown else None
            if shown is None or moved is None:
                continue
            file, text, line = evidence.file, shown, moved
        place = types.Location(convert.uri_of(file), convert.line_range(codec, text, line))
        related.append(types.DiagnosticRelatedInformation(place, evidence.text))
    return related


def _error(state: ScriptState, texts: Texts, codec: PositionCodec) -> Iterator[tuple[str, types.Diagnostic]]:
    error = state.error
    text = texts.shown(error.file) if error and error.file and error.line else None
    if error is None or text is None:
        return
    line = line_map(state.attempt.get(error.file, text.text), text.text)(error.line)
    if line is not None:
        yield (
            error.file,
            types.Diagnostic(
                range=convert.line_range(codec, text, line),
                message=error.message,
                severity=types.DiagnosticSeverity.Error,
                code=RUN_FAILED,
                source=SOURCE,
            ),
        )
