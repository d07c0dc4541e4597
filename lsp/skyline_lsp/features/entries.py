"""The scripts that can profile a file, for clients that let the user choose one."""

from __future__ import annotations

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.protocol import EntryScripts, UriParams
from skyline_lsp import convert, wire
from skyline_lsp.entry_script import entry_of
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/entryScripts``."""

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
