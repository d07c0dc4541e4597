"""Opens a saved profile or a profiler trace. Afterwards its URI can be used in requests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.protocol import OpenResult, UriParams
from skyline_lsp import convert, wire
from skyline_lsp.opened import OpenedTrace, open_file
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/open``."""

    @server.feature(protocol.OPEN)
    async def opened(params: wire.Json) -> Any:
        uri = wire.receive(params, UriParams).uri
        path = convert.path_of(uri)
        try:
            if path is None:
                raise UsageError(f"{uri} is not a file on this machine")
            found = await asyncio.get_running_loop().run_in_executor(None, open_file, Path(path))
        except SkylineError as error:
            raise wire.failed(error) from error
        if isinstance(found, OpenedTrace):
            server.traces.keep(path, found)
            return wire.send(OpenResult("trace", ""))
        state = server.scripts.ensure(uri, path)
        state.accept(found)
        state.stale = state.is_stale(server.texts)
        return wire.send(OpenResult("profile", found.profile.script))
