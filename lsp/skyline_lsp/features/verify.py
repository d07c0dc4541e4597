"""Measures a change and compares it with its prediction. The client may cancel the request."""

from __future__ import annotations

from skyline.report import protocol
from skyline.report.protocol import VerifyParams
from skyline.report.schema import VerifyReport
from skyline.verification.measure import Effort
from skyline.whatif.question import Question
from skyline_lsp import wire
from skyline_lsp.features.simulate import profiled
from skyline_lsp.server import SkylineServer


def register(server: SkylineServer) -> None:
    """Answer ``skyline/verify``."""

    @server.feature(protocol.VERIFY)
    @wire.answers(VerifyParams)
    async def verify(asked: VerifyParams) -> VerifyReport:
        return await verification(server, asked)


async def verification(server: SkylineServer, asked: VerifyParams) -> VerifyReport:
    """Verify the prediction for a question. Raises SkylineError if that fails or is cancelled."""
    state = profiled(server, asked.uri)
    question = Question.parse(asked.batchSize, asked.whatifs)
    return await server.verifier.verify(state, question, asked.removes, _effort(asked), asked.profileId)


def _effort(asked: VerifyParams) -> Effort:
    usual = Effort()
    return Effort(
        usual.rounds if asked.rounds is None else asked.rounds,
        usual.minutes if asked.minutes is None else asked.minutes,
    )
