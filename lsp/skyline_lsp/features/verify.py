"""Measuring a change against its prediction, for a client that waits for the result or cancels."""

from __future__ import annotations

from typing import Any

from skyline.errors import SkylineError
from skyline.report import protocol
from skyline.report.protocol import VerifyParams
from skyline.report.schema import VerifyReport
from skyline.verification.measure import Effort
from skyline.whatif.question import Choice, Question
from skyline_lsp import wire
from skyline_lsp.features.simulate import profiled
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/verify``."""

    @server.feature(protocol.VERIFY)
    async def verify(params: wire.Json) -> Any:
        asked = wire.receive(params, VerifyParams)
        try:
            return wire.send(await verification(server, asked))
        except SkylineError as error:
            raise wire.failed(error) from error


async def verification(server: SkylineServer, asked: VerifyParams) -> VerifyReport:
    """Measure a question about a script; raises SkylineError where that cannot be, or was cancelled."""
    state = profiled(server, asked.uri)
    question = Question(asked.batchSize, tuple(Choice.parse(text) for text in asked.whatifs))
    return await server.verifier.verify(state, question, _effort(asked), asked.profileId)


def _effort(asked: VerifyParams) -> Effort:
    usual = Effort()
    return Effort(
        usual.rounds if asked.rounds is None else asked.rounds,
        usual.minutes if asked.minutes is None else asked.minutes,
    )
