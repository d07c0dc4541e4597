"""The latest profile and predictions from it. Answered from memory, also during a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from skyline.analysis.best import Constraints
from skyline.analysis.curve_under import curve_under
from skyline.errors import SkylineError
from skyline.report import protocol
from skyline.report.build import best_report
from skyline.report.protocol import BestParams, QuestionParams, UriParams
from skyline.whatif.base import Semantics
from skyline.whatif.curve_point import CurvePoint
from skyline.whatif.question import Choice, Question
from skyline_lsp import convert, wire
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState

NO_PROFILE = "There is no profile of this script yet"
PROFILE_FIRST = "Run the command skyline.profile first."


def register(server: SkylineServer) -> None:
    """Answer ``skyline/profile``, ``skyline/whatifs``, ``skyline/best`` and ``skyline/simulate``."""

    @server.feature(protocol.PROFILE)
    def profile(params: wire.Json) -> Any:
        uri = wire.receive(params, UriParams).uri
        if (trace := server.traces.at(convert.path_of(uri))) is not None:
            return wire.send(trace.report)
        state = server.touch(uri)
        return wire.send(state.prepared.report) if state and state.prepared else None

    @server.feature(protocol.WHATIFS)
    def whatifs(params: wire.Json) -> Any:
        uri = wire.receive(params, UriParams).uri
        if (trace := server.traces.at(convert.path_of(uri))) is not None:
            return wire.send(trace.whatifs)
        state = server.touch(uri)
        return wire.send(state.prepared.whatifs) if state and state.prepared else None

    @server.feature(protocol.BEST)
    @server.thread()
    def best(params: wire.Json) -> Any:
        asked = wire.receive(params, BestParams)
        try:
            state = profiled(server, asked.uri)
            assert state.prepared is not None
            constraints = Constraints(asked.maxMemoryBytes, Semantics(asked.semantics), asked.rewritable)
            return wire.send(best_report(state.prepared.analysis, constraints))
        except SkylineError as error:
            raise wire.failed(error) from error

    @server.feature(protocol.SIMULATE)
    async def simulate(params: wire.Json) -> Any:
        asked = wire.receive(params, QuestionParams)
        try:
            if (trace := server.traces.at(convert.path_of(asked.uri))) is not None:
                return wire.send(trace.estimate(question(asked)))
            state = profiled(server, asked.uri)
            answer = state.estimate(question(asked))
            if asked.curve:
                answer = replace(answer, curve=await _curve(state, answer_to=question(asked)))
            return wire.send(answer)
        except SkylineError as error:
            raise wire.failed(error) from error


async def _curve(state: ScriptState, *, answer_to: Question) -> tuple[CurvePoint, ...]:
    """The batch-size curve under the what-ifs of a question, computed on another thread."""
    changes, prepared = answer_to.choices, state.prepared
    assert prepared is not None
    if changes not in state.curves:
        found = await asyncio.get_running_loop().run_in_executor(
            None, curve_under, prepared.analysis, changes
        )
        if state.prepared is not prepared:
            # A newer profile has arrived: cache only its curves.
            return found
        state.curves[changes] = found
    return state.curves[changes]


def question(params: QuestionParams) -> Question:
    """The question in a request. Raises UsageError if a what-if is invalid."""
    return Question(params.batchSize, tuple(Choice.parse(text) for text in params.whatifs))


def profiled(server: SkylineServer, uri: str) -> ScriptState:
    """The state of a profiled script. Raises SkylineError with the next step if there is no profile."""
    state = server.state_of(uri)
    if state is None or state.prepared is None:
        raise SkylineError(NO_PROFILE, hint=PROFILE_FIRST)
    return state
