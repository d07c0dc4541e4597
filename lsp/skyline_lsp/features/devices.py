"""Predictions of a script for several GPUs, which need not be present. The client may cancel the request."""

from __future__ import annotations

from typing import Any

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.protocol import DevicesParams
from skyline_lsp import wire
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/devices``."""

    @server.feature(protocol.DEVICES)
    async def devices(params: wire.Json) -> Any:
        asked = wire.receive(params, DevicesParams)
        try:
            state = server.touch(asked.uri)
            if state is None:
                raise UsageError("Only a file on this machine can be predicted")
            return wire.send(await server.comparer.compare(state, asked))
        except SkylineError as error:
            raise wire.failed(error) from error
