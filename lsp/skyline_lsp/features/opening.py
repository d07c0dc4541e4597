"""Opens a saved profile or a profiler trace, so that requests can use its URI. Finds the scripts for a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.protocol import EntryScripts, OpenResult, UriParams
from skyline_lsp import convert, wire
from skyline_lsp.entry_script import entry_of
from skyline_lsp.opened import OpenedTrace, open_file
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/open`` and ``skyline/entryScripts``."""

    @server.feature(protocol.OPEN)
    @wire.answers(UriParams)
    async def opened(asked: UriParams) -> OpenResult:
        path = convert.path_of(asked.uri)
        if path is None:
            raise UsageError(f"{asked.uri} is not a file on this machine")
        found = await asyncio.to_thread(open_file, Path(path))
        if isinstance(found, OpenedTrace):
            server.traces.keep(path, found)
            return OpenResult("trace", "")
        state = server.scripts.ensure(asked.uri, path)
        state.accept(found)
        state.stale = state.is_stale(server.texts)
        return OpenResult("profile", found.profile.script)

    @server.feature(protocol.ENTRY_SCRIPTS)
    @wire.answers(UriParams)
    async def entry_scripts(asked: UriParams) -> EntryScripts:
        path = convert.path_of(asked.uri)
        server.require_cells(asked.uri)
        if path is None:
            raise UsageError(f"{asked.uri} is not a file on this machine")
        await server.await_settings()
        entry = await entry_of(server, path)
        return EntryScripts(entry.itself, tuple(map(server.texts.uri, entry.scripts)))
