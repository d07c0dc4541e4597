"""Searches for the fastest combination by measured trials. The client may cancel the request."""

from __future__ import annotations

import asyncio

from skyline.report import protocol
from skyline.report.protocol import TuneParams, UriParams
from skyline.report.tune import TuneProgress, TuneReport
from skyline_lsp import tuner, wire
from skyline_lsp.features.simulate import profiled
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/tune`` and ``skyline/tuned``."""

    @server.feature(protocol.TUNE)
    @wire.answers(TuneParams)
    async def tune(asked: TuneParams) -> TuneReport:
        return await server.tuner.tune(profiled(server, asked.uri), asked)

    @server.feature(protocol.TUNED)
    @wire.answers(UriParams)
    async def tuned(asked: UriParams) -> TuneProgress | None:
        state = server.touch(asked.uri)
        if state is None:
            return None
        return await asyncio.to_thread(tuner.tuned, state)
