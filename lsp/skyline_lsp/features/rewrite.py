"""Changes in the person's code: previewed, applied as one undo step, taken back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from lsprotocol import types

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.protocol import ApplyResult, PreviewResult, QuestionParams, Refusal, UriParams
from skyline.rewrite.plan import RewritePlan, plan
from skyline.source.edit import TextEdit
from skyline.source.text import SourceText
from skyline.whatif.question import Question
from skyline_lsp import convert, wire
from skyline_lsp.applied import Applied, holds
from skyline_lsp.features.simulate import profiled, question
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState

NOTHING_APPLIED = "nothing was applied in this session"
ALREADY_UNDONE = "the change is already undone in the editor"
CHANGED_SINCE = (
    "the code was edited since the change was applied: take it back by hand or with the editor's undo"
)


def register(server: SkylineServer) -> None:
    """Answer ``skyline/preview``, ``skyline/apply`` and ``skyline/revert``."""
    # Two edits on their way at once would each be made for a text that the other changes.
    one_at_a_time = asyncio.Lock()

    @server.feature(protocol.PREVIEW)
    def preview(params: wire.Json) -> Any:
        asked = wire.receive(params, QuestionParams)
        try:
            return wire.send(_preview(server, profiled(server, asked.uri), question(asked)))
        except SkylineError as error:
            raise wire.failed(error) from error

    @server.feature(protocol.APPLY)
    async def apply(params: wire.Json) -> Any:
        asked = wire.receive(params, QuestionParams)
        async with one_at_a_time:
            try:
                return wire.send(await _apply(server, profiled(server, asked.uri), question(asked)))
            except SkylineError as error:
                return wire.send(ApplyResult(False, _reason(error)))

    @server.feature(protocol.REVERT)
    async def revert(params: wire.Json) -> Any:
        asked = wire.receive(params, UriParams)
        async with one_at_a_time:
            return wire.send(await _revert(server, asked.uri))


@dataclass(frozen=True, slots=True)
class _Planned:
    plan: RewritePlan
    before: dict[str, SourceText]


def _plan(server: SkylineServer, state: ScriptState, asked: Question) -> _Planned:
    """The rewrite for the text as it is now, which need not be the text that was profiled."""
    read: dict[str, SourceText] = {}

    def current(path: str) -> SourceText:
        text = server.texts.shown(path)
        if text is None:
            raise UsageError(f"{path} cannot be read any more", file=path, hint="Profile the script again.")
        read[text.path] = text
        return text

    if state.prepared is None:
        raise SkylineError("There is no profile yet", hint="Run skyline.profile first.")
    planned = plan(state.prepared.analysis, asked, current)
    for edit in planned.edits:
        current(edit.span.file)
    return _Planned(planned, read)


def _preview(server: SkylineServer, state: ScriptState, asked: Question) -> PreviewResult:
    planned = _plan(server, state, asked)
    uris = {path: _uri(server, state, path) for path in planned.before}
    return PreviewResult(
        edits=convert.to_preview(planned.plan.edits, planned.before, uris),
        diff=planned.plan.diff(planned.before.__getitem__),
        refused=_refusals(planned.plan),
    )


async def _apply(server: SkylineServer, state: ScriptState, asked: Question) -> ApplyResult:
    planned = _plan(server, state, asked)
    left_out = "; ".join(f"{refused.name}: {refused.reason}" for refused in planned.plan.refused)
    edits = planned.plan.edits
    refused = _refusals(planned.plan)
    if not edits:
        return ApplyResult(False, left_out or "there is nothing to change", refused)
    touched = {edit.span.file for edit in edits}
    before = {path: planned.before[path] for path in touched}
    after = {
        path: text.apply(edit for edit in edits if edit.span.file == path) for path, text in before.items()
    }
    label = f"Skyline: {_words(asked)}"
    result = await _send(server, state, label, edits, before)
    if not result.applied:
        return result
    server.applied.push(state.path, Applied(label, before, after))
    return ApplyResult(True, f"not rewritten: {left_out}" if left_out else None, refused)


def _refusals(planned: RewritePlan) -> tuple[Refusal, ...]:
    return tuple(Refusal(refused.name, refused.reason, refused.snippet) for refused in planned.refused)


async def _revert(server: SkylineServer, uri: str) -> ApplyResult:
    state = server.state_of(uri)
    last = server.applied.top(state.path) if state else None
    if state is None or last is None:
        return ApplyResult(False, NOTHING_APPLIED)
    if not holds(last.after, server.texts.shown):
        if holds(last.before, server.texts.shown):
            server.applied.pop(state.path)
            return ApplyResult(False, ALREADY_UNDONE)
        return ApplyResult(False, CHANGED_SINCE)
    result = await _send(server, state, f"Take back: {last.label}", last.inverse(), last.after)
    if result.applied:
        server.applied.pop(state.path)
    return result


def planned_edit(server: SkylineServer, state: ScriptState, asked: Question) -> types.WorkspaceEdit | None:
    """The whole of a change as an edit for the client to make, None where any part of it is refused."""
    planned = _plan(server, state, asked)
    if not planned.plan.edits or planned.plan.refused:
        return None
    return edit_of(server, state, planned.plan.edits, planned.before)


async def _send(
    server: SkylineServer,
    state: ScriptState,
    label: str,
    edits: tuple[TextEdit, ...],
    texts: dict[str, SourceText],
) -> ApplyResult:
    workspace = server.client_capabilities.workspace
    if not (workspace and workspace.apply_edit):
        return ApplyResult(False, "this client does not take edits; use skyline apply on the command line")
    edit = edit_of(server, state, edits, texts)
    answer = await server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit=edit, label=label))
    if answer.applied:
        return ApplyResult(True)
    return ApplyResult(False, answer.failure_reason or "the client did not take the edit")


def edit_of(
    server: SkylineServer, state: ScriptState, edits: tuple[TextEdit, ...], texts: dict[str, SourceText]
) -> types.WorkspaceEdit:
    """Edits of these texts as the client takes them, with the versions of its documents where it knows those."""
    documents: dict[str, types.OptionalVersionedTextDocumentIdentifier] = {}
    for path in {edit.span.file for edit in edits}:
        document = server.texts.at(path)
        version = document.version if document else None
        documents[path] = types.OptionalVersionedTextDocumentIdentifier(_uri(server, state, path), version)
    edit = convert.to_workspace_edit(server.workspace.position_codec, edits, texts, documents)
    workspace = server.client_capabilities.workspace
    versioned = workspace and workspace.workspace_edit and workspace.workspace_edit.document_changes
    return edit if versioned else convert.without_versions(edit)


def _uri(server: SkylineServer, state: ScriptState, path: str) -> str:
    document = server.texts.at(path)
    if document is not None:
        return document.uri
    return state.uri if path == state.path else convert.uri_of(path)


def _words(asked: Question) -> str:
    parts = [f"batch size {asked.batch_size}"] if asked.batch_size is not None else []
    return ", ".join((*parts, *map(str, asked.choices)))


def _reason(error: SkylineError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message
