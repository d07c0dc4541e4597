"""Runs of ``skyline watch``, read from their histories during and after the run."""

from __future__ import annotations

import asyncio

from skyline.report import protocol
from skyline.report.protocol import WatchedParams
from skyline.watch.watch_report import WatchReport, latest_report
from skyline_lsp import wire
from skyline_lsp.features.history import script_of
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/watched``."""

    @server.feature(protocol.WATCHED)
    @wire.answers(WatchedParams)
    async def watched(asked: WatchedParams) -> WatchReport | None:
        script = script_of(server, asked.uri)
        return await asyncio.to_thread(latest_report, script, asked.name)
