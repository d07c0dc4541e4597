"""Changes of the user's code: preview, apply as one undo step, revert the last change, remove a single one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.protocol import (
    ApplyResult,
    OriginalText,
    PreviewResult,
    QuestionOptions,
    QuestionParams,
    RemoveParams,
    UriParams,
)
from skyline.source.text import SourceText, TextEdit
from skyline.whatif.question import Question
from skyline_lsp import convert, planned_change, wire
from skyline_lsp.features.simulate import profiled
from skyline_lsp.journal import Read
from skyline_lsp.planned_change import PlannedChange, check_current, planned_question, planned_removal
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState
from skyline_lsp.wire import options, script_uri

NOTHING_APPLIED = "the code contains no change made by Skyline"
ALREADY_UNDONE = "the change was already undone in the editor"
CHANGED_SINCE = "the changed code was edited since: undo the change by hand or with the editor's undo"
STILL_CHANGING = "the code kept changing before the edit arrived: apply the change when you stop typing"
_OFFERS = 4
_NEWS_WAIT_S = 0.5
_ANSWER_WAIT_S = 120.0


def register(server: SkylineServer) -> None:
    """Answer the requests and commands that preview, apply, revert and list code changes."""
    # Two concurrent edits would each be computed for a text that the other one changes.
    one_at_a_time = asyncio.Lock()

    async def changed(label: str, uri: str, plan: Callable[[ScriptState], PlannedChange]) -> ApplyResult:
        async with one_at_a_time:
            try:
                state = profiled(server, uri)
                return await _carry_out(server, state, f"Skyline: {label}", lambda: plan(state))
            except SkylineError as error:
                return ApplyResult(False, _reason(error))

    @server.feature(protocol.PREVIEW)
    @wire.answers(QuestionParams)
    def preview(asked: QuestionParams) -> PreviewResult:
        return _preview(server, profiled(server, asked.uri), Question.parse(asked.batchSize, asked.whatifs))

    @server.feature(protocol.APPLY)
    @wire.answers(QuestionParams)
    async def apply(asked: QuestionParams) -> ApplyResult:
        try:
            wanted = Question.parse(asked.batchSize, asked.whatifs)
        except SkylineError as error:
            return ApplyResult(False, _reason(error))
        plan = partial(planned_question, server, asked=wanted)
        return await changed(planned_change.words(wanted), asked.uri, plan)

    @server.feature(protocol.REMOVE)
    @wire.answers(RemoveParams)
    async def remove(asked: RemoveParams) -> ApplyResult:
        plan = partial(planned_removal, server, name=asked.whatif)
        return await changed(f"without {asked.whatif}", asked.uri, plan)

    @server.feature(protocol.REVERT)
    @wire.answers(UriParams)
    async def revert(asked: UriParams) -> ApplyResult:
        async with one_at_a_time:
            return await _revert(server, asked.uri)

    @server.feature(protocol.CODE_CHANGES)
    @wire.answers(UriParams)
    def changes(asked: UriParams) -> object:
        state = server.state_of(asked.uri)
        return server.code_news.ask(state) if state is not None else None

    @server.feature(protocol.ORIGINAL)
    @wire.answers(UriParams)
    def original(asked: UriParams) -> tuple[OriginalText, ...]:
        state = server.state_of(asked.uri)
        if state is None:
            return ()
        texts = planned_change.texts_without(server, state)
        return tuple(OriginalText(_uri(server, state, path), _shown(text)) for path, text in texts.items())

    @server.command(protocol.COMMAND_APPLY_REWRITE)
    async def apply_rewrite(*arguments) -> Any:
        asked = options(arguments, QuestionOptions) or QuestionOptions()
        uri = script_uri(server, arguments)
        result = await apply({"uri": uri, "batchSize": asked.batchSize, "whatifs": asked.whatifs})
        if not result["applied"]:
            # Editors do not show the result of a command chosen from a menu.
            server.warn(result["reason"])
        return result

    @server.command(protocol.COMMAND_REVERT)
    async def take_back(*arguments) -> Any:
        return await revert({"uri": script_uri(server, arguments)})


def _preview(server: SkylineServer, state: ScriptState, asked: Question) -> PreviewResult:
    planned = planned_question(server, state, asked)
    uris = {path: _uri(server, state, path) for path in planned.before}
    return PreviewResult(
        edits=convert.to_preview(planned.edits, planned.before, uris),
        diff=planned.diff(),
        refused=planned.refused,
    )


async def _carry_out(
    server: SkylineServer, state: ScriptState, label: str, planned_now: Callable[[], PlannedChange]
) -> ApplyResult:
    """Send a change to the client. If the text changed in the meantime, plan again for the newer text."""
    for _ in range(_OFFERS):
        planned = planned_now()
        if not planned.edits:
            return ApplyResult(False, planned.left_out or "there is nothing to change", planned.refused)
        before = {path: planned.before[path] for path in {edit.span.file for edit in planned.edits}}
        check_current(server, before)
        result = await _send(server, state, label, planned.edits, before)
        if result.applied:
            for entry in planned.entries:
                server.journal.push(state.path, entry, _as_planned(server, planned))
            server.code_changed(state)
            reason = f"not rewritten: {planned.left_out}" if planned.refused else None
            return ApplyResult(True, reason, planned.refused)
        if not await _moved_on(server, before):
            return result
    return ApplyResult(False, STILL_CHANGING)


def _as_planned(server: SkylineServer, planned: PlannedChange) -> Read:
    """Reads the texts that a change was planned for: the client may already have reported the changed ones."""
    return lambda path: planned.before.get(path) or server.texts.shown(path)


async def _moved_on(server: SkylineServer, before: Mapping[str, SourceText]) -> bool:
    """Wait briefly for a text change that explains a rejected edit. Returns True if one came."""
    end = asyncio.get_running_loop().time() + _NEWS_WAIT_S
    while all(
        (now := server.texts.shown(path)) is not None and now.text == text.text
        for path, text in before.items()
    ):
        if asyncio.get_running_loop().time() >= end:
            return False
        await asyncio.sleep(_NEWS_WAIT_S / 10)
    return True


async def _revert(server: SkylineServer, uri: str) -> ApplyResult:
    state = server.state_of(uri)
    if state is None:
        return ApplyResult(False, NOTHING_APPLIED)
    read = server.texts.shown
    undone = False
    for entry in reversed(server.journal.of(state.path, read)):
        if not entry.is_in(read):
            if not entry.is_undone_in(read):
                return ApplyResult(False, CHANGED_SINCE)
            undone = True
            continue
        planned = planned_change.planned_return(server, entry)
        if planned is None:
            return ApplyResult(False, CHANGED_SINCE)
        try:
            return await _carry_out(server, state, f"Undo: {entry.label}", lambda found=planned: found)
        except UsageError as error:
            return ApplyResult(False, _reason(error))
    return ApplyResult(False, ALREADY_UNDONE if undone else NOTHING_APPLIED)


def planned_edit(server: SkylineServer, state: ScriptState, asked: Question) -> types.WorkspaceEdit | None:
    """A complete change as an edit for the client. None if any part of it is refused."""
    planned = planned_question(server, state, asked)
    if not planned.edits or planned.refused:
        return None
    check_current(server, {edit.span.file for edit in planned.edits})
    return edit_of(server, state, planned.edits, planned.before)


async def _send(
    server: SkylineServer,
    state: ScriptState,
    label: str,
    edits: tuple[TextEdit, ...],
    texts: Mapping[str, SourceText],
) -> ApplyResult:
    workspace = server.client_capabilities.workspace
    if not (workspace and workspace.apply_edit):
        return ApplyResult(False, "this client does not support edits; use skyline apply on the command line")
    edit = edit_of(server, state, edits, texts)
    asked = server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit=edit, label=label))
    try:
        answer = await asyncio.wait_for(asked, _ANSWER_WAIT_S)
    except asyncio.TimeoutError:
        return ApplyResult(False, "the client did not answer")
    except JsonRpcException as error:
        return ApplyResult(False, f"the client rejected the edit: {error.message}")
    if answer.applied:
        return ApplyResult(True)
    return ApplyResult(False, answer.failure_reason or "the client rejected the edit")


def edit_of(
    server: SkylineServer, state: ScriptState, edits: tuple[TextEdit, ...], texts: Mapping[str, SourceText]
) -> types.WorkspaceEdit:
    """Edits in the client's format, with document versions if the client supports them."""
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


def _shown(text: SourceText) -> str:
    return ("\ufeff" if text.byte_order_mark else "") + text.text


def _reason(error: SkylineError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message
