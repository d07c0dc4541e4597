"""Changes in the person's code: previewed, applied as one undo step, taken back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.protocol import (
    ApplyResult,
    PreviewResult,
    QuestionOptions,
    QuestionParams,
    Refusal,
    UriParams,
)
from skyline.rewrite.plan import RewritePlan, plan
from skyline.source.edit import TextEdit
from skyline.source.text import SourceText
from skyline.whatif.question import Question
from skyline_lsp import convert, wire
from skyline_lsp.applied import Applied, holds
from skyline_lsp.arguments import options, script_uri
from skyline_lsp.features.simulate import profiled, question
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState

NOTHING_APPLIED = "nothing was applied in this session"
ALREADY_UNDONE = "the change is already undone in the editor"
CHANGED_SINCE = (
    "the code was edited since the change was applied: take it back by hand or with the editor's undo"
)
STILL_CHANGING = "the code was changed again each time the edit came: apply it when it rests"
_OFFERS = 4
_NEWS_WAIT_S = 0.5
_ANSWER_WAIT_S = 120.0


def register(server: SkylineServer) -> None:
    """Answer ``skyline/preview``, ``skyline/apply`` and ``skyline/revert``, and the commands that do the same."""
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

    @server.command(protocol.COMMAND_APPLY_REWRITE)
    async def apply_rewrite(*arguments) -> Any:
        asked = options(arguments, QuestionOptions) or QuestionOptions()
        uri = script_uri(server, arguments)
        result = await apply({"uri": uri, "batchSize": asked.batchSize, "whatifs": asked.whatifs})
        if not result["applied"]:
            # Chosen from a menu: nobody looks at what a command gives back.
            server.warn(result["reason"])
        return result

    @server.command(protocol.COMMAND_REVERT)
    async def take_back(*arguments) -> Any:
        return await revert({"uri": script_uri(server, arguments)})


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
    """Offer the change to the client; where it knows a newer text by then, once more for that one."""
    label = f"Skyline: {_words(asked)}"
    for _ in range(_OFFERS):
        planned = _plan(server, state, asked)
        left_out = "; ".join(f"{refused.name}: {refused.reason}" for refused in planned.plan.refused)
        edits, refused = planned.plan.edits, _refusals(planned.plan)
        if not edits:
            return ApplyResult(False, left_out or "there is nothing to change", refused)
        before = {path: planned.before[path] for path in {edit.span.file for edit in edits}}
        check_current(server, before)
        after = {
            path: text.apply(edit for edit in edits if edit.span.file == path)
            for path, text in before.items()
        }
        result = await _send(server, state, label, edits, before)
        if result.applied:
            server.applied.push(state.path, Applied(label, before, after))
            return ApplyResult(True, f"not rewritten: {left_out}" if left_out else None, refused)
        if not await _moved_on(server, before):
            return result
    return ApplyResult(False, STILL_CHANGING)


async def _moved_on(server: SkylineServer, before: dict[str, SourceText]) -> bool:
    """Whether a text is no longer the one that a refused edit was for; the client's news may be on its way."""
    end = asyncio.get_running_loop().time() + _NEWS_WAIT_S
    while holds(before, server.texts.shown):
        if asyncio.get_running_loop().time() >= end:
            return False
        await asyncio.sleep(_NEWS_WAIT_S / 10)
    return True


def check_current(server: SkylineServer, files: Iterable[str]) -> None:
    """Raise UsageError where a file was written by another program and the client still has the text from before."""
    for path in files:
        if server.texts.outdated(path):
            raise UsageError(
                f"{os.path.basename(path)} was changed on disk by another program since the editor read it",
                file=path,
                hint="Read it again in the editor, or save it there; then make the change.",
            )


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
    try:
        check_current(server, last.after)
    except UsageError as error:
        return ApplyResult(False, _reason(error))
    result = await _send(server, state, f"Take back: {last.label}", last.inverse(), last.after)
    if result.applied:
        server.applied.pop(state.path)
    return result


def planned_edit(server: SkylineServer, state: ScriptState, asked: Question) -> types.WorkspaceEdit | None:
    """The whole of a change as an edit for the client to make, None where any part of it is refused."""
    planned = _plan(server, state, asked)
    if not planned.plan.edits or planned.plan.refused:
        return None
    check_current(server, {edit.span.file for edit in planned.plan.edits})
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
    asked = server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit=edit, label=label))
    try:
        answer = await asyncio.wait_for(asked, _ANSWER_WAIT_S)
    except asyncio.TimeoutError:
        return ApplyResult(False, "the client did not answer")
    except JsonRpcException as error:
        return ApplyResult(False, f"the client did not take the edit: {error.message}")
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
