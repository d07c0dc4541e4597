"""The cure of a finding, as a fix with its predicted gain."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from skyline import units
from skyline.errors import SkylineError
from skyline.report.schema import EstimateReport
from skyline.whatif.question import Choice, Question
from skyline_lsp import convert
from skyline_lsp.features import diagnostics
from skyline_lsp.features.diagnostics import PlacedFinding
from skyline_lsp.features.rewrite import planned_edit
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/codeAction``."""

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    )
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        only = params.context.only
        if only and not any(types.CodeActionKind.QuickFix.value.startswith(kind) for kind in only):
            return []
        return list(fixes(server, params.text_document.uri, params.range))


def fixes(server: SkylineServer, uri: str, place: types.Range) -> Iterator[types.CodeAction]:
    """A fix for each finding in a range whose cure can be written and is predicted to help."""
    path = convert.path_of(uri)
    first, last = convert.line_number(place.start), convert.line_number(place.end)
    for placed in diagnostics.placed_findings(server.scripts, server.texts):
        if placed.finding.file == path and first <= placed.line <= last:
            estimate = _cure(placed)
            if estimate is not None:
                yield from _fix(server, placed, estimate)


def _cure(placed: PlacedFinding) -> EstimateReport | None:
    prepared, whatif = placed.state.prepared, placed.finding.whatif
    if prepared is None or whatif is None:
        return None
    name = Choice.parse(whatif).name
    known = next((answer for answer in prepared.whatifs.estimates if answer.name == name), None)
    helps = known is not None and known.applicable and known.rewrite == "available" and known.speedup > 1
    return known if helps else None


def _fix(
    server: SkylineServer, placed: PlacedFinding, estimate: EstimateReport
) -> Iterator[types.CodeAction]:
    prepared = placed.state.prepared
    assert prepared is not None
    try:
        edit = planned_edit(server, placed.state, Question(choices=(Choice(estimate.name, estimate.value),)))
    except SkylineError:
        return
    if edit is None:
        return
    gain = units.format_ms_delta(estimate.iteration_ms.value - prepared.report.iteration_ms.value)
    yield types.CodeAction(
        title=f"Skyline: {estimate.title}, predicted {gain} per iteration",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[diagnostics.of_finding(placed, server.workspace.position_codec)],
        is_preferred=estimate.semantics == "exact",
        edit=edit,
    )
