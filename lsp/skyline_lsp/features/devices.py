"""Predictions of a script for several GPUs, which need not be present. The client may cancel the request."""

from __future__ import annotations

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.device_rows import DevicesReport
from skyline.report.protocol import DevicesParams
from skyline_lsp import wire
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/devices``."""

    @server.feature(protocol.DEVICES)
    @wire.answers(DevicesParams)
    async def devices(asked: DevicesParams) -> DevicesReport:
        state = server.touch(asked.uri)
        if state is None:
            raise UsageError("Only a file on this machine can be predicted")
        return await server.comparer.compare(state, asked)
