"""Opens a saved profile or a profiler trace. Afterwards its URI can be used in requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.protocol import OpenResult, UriParams
from skyline_lsp import convert, wire
from skyline_lsp.opened import OpenedTrace, open_file
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/open``."""

    @server.feature(protocol.OPEN)
    @wire.answers(UriParams)
    async def opened(asked: UriParams) -> OpenResult:
        path = convert.path_of(asked.uri)
        if path is None:
            raise UsageError(f"{asked.uri} is not a file on this machine")
        found = await asyncio.get_running_loop().run_in_executor(None, open_file, Path(path))
        if isinstance(found, OpenedTrace):
            server.traces.keep(path, found)
            return OpenResult("trace", "")
        state = server.scripts.ensure(asked.uri, path)
        state.accept(found)
        state.stale = state.is_stale(server.texts)
        return OpenResult("profile", found.profile.script)
