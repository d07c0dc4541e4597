"""Changes that are predicted to bring something, offered where the code would change.

The cure of a finding is a quick fix at its line. Every what-if that applies and can be written is a refactoring at
the lines that it edits; one that the code does not allow is shown with its reason, where the client has a way to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lsprotocol import types

from skyline import units
from skyline.errors import SkylineError
from skyline.report.schema import EstimateReport
from skyline.source.text import SourceText
from skyline.whatif.question import Choice, Question
from skyline_lsp import convert
from skyline_lsp.changes import Change
from skyline_lsp.features import diagnostics
from skyline_lsp.features.diagnostics import PlacedFinding
from skyline_lsp.features.rewrite import edit_of, planned_edit
from skyline_lsp.line_map import line_map
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import Prepared, ScriptState

QUICK_FIX, REFACTORING = types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite
_WORTH_TELLING = 0.01
"""Share of the peak from which a change of memory is told."""


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/codeAction``, and ``codeAction/resolve`` for edits that were not ready."""

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[QUICK_FIX, REFACTORING], resolve_provider=True),
    )
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        only, uri, place = params.context.only, params.text_document.uri, params.range
        found: list[types.CodeAction] = []
        if _wanted(QUICK_FIX, only):
            found += fixes(server, uri, place)
        if _wanted(REFACTORING, only):
            known = {action.title for action in found}
            found += [one for one in refactorings(server, uri, place) if one.title not in known]
        return found

    @server.feature(types.CODE_ACTION_RESOLVE)
    def resolve(action: types.CodeAction) -> types.CodeAction:
        data: Any = action.data
        state = server.state_of(data["uri"]) if isinstance(data, dict) and "uri" in data else None
        if state is not None and action.edit is None:
            try:
                question = Question(choices=(Choice.parse(data["whatif"]),))
                action.edit = planned_edit(server, state, question)
            except SkylineError as error:
                server.warn(str(error))
        return action


def fixes(server: SkylineServer, uri: str, place: types.Range) -> Iterator[types.CodeAction]:
    """A fix for each finding in a range whose cure can be written and is predicted to help."""
    path = convert.path_of(uri)
    for placed in diagnostics.placed_findings(server.scripts, server.texts):
        prepared = placed.state.prepared
        if prepared is None or placed.finding.file != path or not _covers(place, placed.line):
            continue
        change = _cure(prepared, placed)
        action = change and _action(server, placed.state, change, QUICK_FIX)
        if action:
            assert change is not None
            action.diagnostics = [
                diagnostics.of_finding(placed, server.workspace.position_codec, server.texts)
            ]
            action.is_preferred = change.estimate.semantics == "exact"
            yield action


def refactorings(server: SkylineServer, uri: str, place: types.Range) -> Iterator[types.CodeAction]:
    """The changes that would be made at a range, best first, then those that the code does not allow."""
    path = convert.path_of(uri)
    state = server.scripts.covering(path) if path else None
    prepared = state.prepared if state else None
    text = server.texts.shown(path) if path else None
    if state is None or prepared is None or path is None or text is None:
        return
    moved = line_map(prepared.sources[path].text, text.text)
    here = [
        change
        for change in prepared.changes
        if any(file == path and _covers(place, moved(line)) for file, line in change.places)
    ]
    for change in sorted(here, key=lambda change: not change.edits):
        action = _action(server, state, change, REFACTORING)
        if action is not None:
            yield action


def _wanted(kind: types.CodeActionKind, only: Any) -> bool:
    return not only or any(f"{kind.value}.".startswith(f"{getattr(one, 'value', one)!s}.") for one in only)


def _covers(place: types.Range, line: int | None) -> bool:
    return line is not None and convert.line_number(place.start) <= line <= convert.line_number(place.end)


def _cure(prepared: Prepared, placed: PlacedFinding) -> Change | None:
    whatif = placed.finding.whatif
    choice = Choice.parse(whatif) if whatif is not None else None
    known = next(
        (
            change
            for change in prepared.changes
            if choice is not None
            and change.estimate.name == choice.name
            and choice.value in ("", change.estimate.value)
        ),
        None,
    )
    if known is None or not known.edits:
        return None
    # The cure of a finding that costs no time is one that saves memory.
    return known if known.estimate.speedup > 1 or placed.finding.cost_ms == 0 else None


def _action(
    server: SkylineServer, state: ScriptState, change: Change, kind: types.CodeActionKind
) -> types.CodeAction | None:
    """None where it cannot be offered: it is refused, and the client shows no reasons, or the text has changed."""
    prepared, estimate = state.prepared, change.estimate
    assert prepared is not None
    document = server.client_capabilities.text_document
    able = document.code_action if document else None
    action = types.CodeAction(title=f"Skyline: {estimate.title}, {_effect(estimate, prepared)}", kind=kind)
    if not change.edits:
        if not (able and able.disabled_support):
            return None
        action.disabled = types.CodeActionDisabled(change.refused)
        return action
    choice = Choice(estimate.name, estimate.value)
    before = _unchanged(server, prepared, change)
    if before is not None:
        action.edit = edit_of(server, state, change.edits, before)
    elif able and able.resolve_support and "edit" in able.resolve_support.properties:
        action.data = {"uri": state.uri, "whatif": str(choice)}
    else:
        try:
            action.edit = planned_edit(server, state, Question(choices=(choice,)))
        except SkylineError:
            return None
        if action.edit is None:
            return None
    return action


def _unchanged(server: SkylineServer, prepared: Prepared, change: Change) -> dict[str, SourceText] | None:
    """The texts that a change edits, where every source reads as it was profiled."""
    shown = {path: server.texts.shown(path) for path in prepared.sources}
    known = {path: text for path, text in shown.items() if text is not None}
    same = all(path in known and known[path].text == source.text for path, source in prepared.sources.items())
    files = {edit.span.file for edit in change.edits}
    return known if same and files <= known.keys() else None


def _effect(estimate: EstimateReport, prepared: Prepared) -> str:
    """``predicted -5.1 ms per iteration, -381 MB``."""
    now = prepared.report
    words = f"predicted {units.format_ms_delta(estimate.iteration_ms.value - now.iteration_ms.value)} per iteration"
    peak = prepared.whatifs.baseline.peak_bytes.value
    memory = estimate.peak_bytes.value - peak
    if abs(memory) >= _WORTH_TELLING * peak:
        words += f", {units.format_bytes_delta(memory)} at the peak"
    return words
