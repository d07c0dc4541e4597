"""Code lenses: the headline above the training loop, and the cost of expensive functions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from lsprotocol import types

from skyline import units
from skyline.report import protocol
from skyline.report.basis import headline_so_far
from skyline.source.line_map import line_map
from skyline.source.text import SourceText
from skyline_lsp import convert
from skyline_lsp.batch_size_place import batch_size_place
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState

INVITATION = "▶ Profile this training script with Skyline"
USE_LATER = "Show the later measurement"


def register(server: SkylineServer) -> None:
    """Answer ``textDocument/codeLens``, and ``codeLens/resolve`` for clients that resolve titles lazily."""

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=True))
    def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        found = lenses(server, params.text_document.uri)
        if _resolves_commands(server):
            for lens in found:
                lens.command = None
        return found

    @server.feature(types.CODE_LENS_RESOLVE)
    def resolve(lens: types.CodeLens) -> types.CodeLens:
        data: Any = lens.data
        if lens.command is None and isinstance(data, dict) and isinstance(data.get("uri"), str):
            known = (one for one in lenses(server, data["uri"]) if one.data == data)
            # The lens is outdated: a refresh with new lenses follows.
            gone = types.Command(title="…", command=protocol.COMMAND_SHOW_REPORT, arguments=[data["uri"]])
            lens.command = next((one.command for one in known), gone)
        return lens


def lenses(server: SkylineServer, uri: str) -> list[types.CodeLens]:
    """All lenses of a document. Empty if lenses are switched off."""
    path = convert.path_of(uri)
    text = server.texts.shown(path) if path else None
    settings = server.settings_at(path)
    if path is None or text is None or not (settings.enable and settings.code_lens.enable):
        return []
    found: list[types.CodeLens] = []
    for state in server.scripts:
        line = headline_line(server, state, path, text)
        if line is not None:
            found += (_lens(line, title, command, state.uri) for title, command in _about(server, state))
    for state in server.scripts.set_by(path):
        found += _settings_lenses(server, state, text)
    own = server.scripts.at(path)
    if server.trusted and (own is None or not (own.prepared or own.job or own.error)):
        line = server.loops.at(text)
        # A file covered by another script's profile is part of that training.
        if line is not None and server.scripts.covering(path) is None:
            found.append(_lens(line, INVITATION, protocol.COMMAND_PROFILE, uri))
    found += _function_lenses(server, path, text, settings.code_lens.min_share)
    for slot, lens in enumerate(found):
        lens.data = {"uri": uri, "slot": slot}
    return found


def _resolves_commands(server: SkylineServer) -> bool:
    document = server.client_capabilities.text_document
    able = document.code_lens.resolve_support if document and document.code_lens else None
    return able is not None and "command" in able.properties


def _about(server: SkylineServer, state: ScriptState) -> Iterator[tuple[str, str]]:
    known = state.job.known if state.job else None
    if known is not None and (known.iteration_ms is not None or state.prepared is None):
        # Newer than the profile, and the only result for the current code.
        yield headline_so_far(known.batch_size, known.iteration_ms, known.throughput), protocol.COMMAND_CANCEL
    elif state.prepared is not None:
        yield f"{'~ stale · ' if state.stale else ''}{state.prepared.headline}", protocol.COMMAND_SHOW_REPORT
    if state.job is not None:
        stage = state.job.stage
        words = f"{stage.stage}: {stage.message}" if stage.message else stage.stage
        yield f"Profiling, {words} ({units.format_share(stage.fraction)}) · cancel", protocol.COMMAND_CANCEL
        return
    if not server.trusted:
        return
    if state.error is not None:
        yield f"Profiling failed: {state.error.message.splitlines()[0]} · run again", protocol.COMMAND_PROFILE
    elif state.stale:
        yield "▶ Profile again", protocol.COMMAND_PROFILE
    if state.prepared is not None and state.prepared.report.set_aside:
        yield USE_LATER, protocol.COMMAND_USE_LATER


def headline_line(server: SkylineServer, state: ScriptState, path: str, text: SourceText) -> int | None:
    """The line of a script's headline in this file. None if the headline belongs to another file."""
    prepared = state.prepared
    loop = prepared.report.loop if prepared else None
    if prepared is not None and loop is not None:
        if loop.file != path or path not in prepared.sources:
            return None
        return line_map(prepared.sources[path].text, text.text).nearest(loop.line)
    if path != state.path or not (prepared or state.job or state.error):
        return None
    return server.loops.at(text) or 1


def _settings_lenses(server: SkylineServer, state: ScriptState, text: SourceText) -> Iterator[types.CodeLens]:
    """The lenses of a script above its batch size in a settings file, with the name of the script."""
    place = batch_size_place(state.prepared.report, None, text) if state.prepared else None
    if place is not None:
        name = os.path.basename(state.path)
        for title, command in _about(server, state):
            yield _lens(place.span.line, f"{name}: {title}", command, state.uri)


def _function_lenses(
    server: SkylineServer, path: str, text: SourceText, min_share: float
) -> Iterator[types.CodeLens]:
    state = server.scripts.covering(path)
    if state is None or state.prepared is None:
        return
    lines = line_map(state.prepared.sources[path].text, text.text)
    for cost in state.prepared.functions.get(path, ()):
        line = lines(cost.line)
        if line is not None and cost.share >= min_share:
            mark = "~ " if state.stale else ""
            title = f"{mark}{units.format_ms(cost.self_ms)} ({units.format_share(cost.share)})"
            if cost.bound:
                title += f" · bound by {cost.bound}"
            yield _lens(line, title, protocol.COMMAND_SHOW_REPORT, state.uri)


def _lens(line: int, title: str, command: str, uri: str) -> types.CodeLens:
    return types.CodeLens(
        range=convert.line_start(line), command=types.Command(title=title, command=command, arguments=[uri])
    )
