"""The latest profile, and predictions from it: look-ups and one simulation, answered while a run goes on."""

from __future__ import annotations

from typing import Any

from skyline.analysis.best import Wish
from skyline.errors import SkylineError
from skyline.report import protocol
from skyline.report.build import best_report
from skyline.report.protocol import BestParams, QuestionParams, UriParams
from skyline.whatif.base import Semantics
from skyline.whatif.question import Choice, Question
from skyline_lsp import wire
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState

NO_PROFILE = "There is no profile of this script yet"
PROFILE_FIRST = "Run the command skyline.profile first."


def register(server: SkylineServer) -> None:
    """Answer ``skyline/profile``, ``skyline/whatifs``, ``skyline/best`` and ``skyline/simulate``."""

    @server.feature(protocol.PROFILE)
    def profile(params: wire.Json) -> Any:
        state = server.touch(wire.receive(params, UriParams).uri)
        return wire.send(state.prepared.report) if state and state.prepared else None

    @server.feature(protocol.WHATIFS)
    def whatifs(params: wire.Json) -> Any:
        state = server.touch(wire.receive(params, UriParams).uri)
        return wire.send(state.prepared.whatifs) if state and state.prepared else None

    @server.feature(protocol.BEST)
    @server.thread()
    def best(params: wire.Json) -> Any:
        asked = wire.receive(params, BestParams)
        try:
            state = profiled(server, asked.uri)
            assert state.prepared is not None
            wish = Wish(asked.maxMemoryBytes, Semantics(asked.semantics), asked.rewritable)
            return wire.send(best_report(state.prepared.analysis, wish))
        except SkylineError as error:
            raise wire.failed(error) from error

    @server.feature(protocol.SIMULATE)
    def simulate(params: wire.Json) -> Any:
        asked = wire.receive(params, QuestionParams)
        try:
            return wire.send(profiled(server, asked.uri).estimate(question(asked)))
        except SkylineError as error:
            raise wire.failed(error) from error


def question(params: QuestionParams) -> Question:
    """The question in a request; raises UsageError where a what-if is not one."""
    return Question(params.batchSize, tuple(Choice.parse(text) for text in params.whatifs))


def profiled(server: SkylineServer, uri: str) -> ScriptState:
    """The state of a script that has a profile; raises SkylineError with the next step where it has none."""
    state = server.state_of(uri)
    if state is None or state.prepared is None:
        raise SkylineError(NO_PROFILE, hint=PROFILE_FIRST)
    return state
