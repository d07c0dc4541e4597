"""The latest profile and predictions from it. Answered from memory, also during a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from skyline.analysis.best import Constraints
from skyline.analysis.estimate import curve_under
from skyline.report import protocol
from skyline.report.build import best_report
from skyline.report.protocol import BestParams, QuestionParams, UriParams
from skyline.report.schema import BestReport, EstimateReport, WhatIfReport
from skyline.whatif.base import Semantics
from skyline.whatif.question import CurvePoint, Question
from skyline_lsp import convert, wire
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import ScriptState, no_profile


def register(server: SkylineServer) -> None:
    """Answer ``skyline/profile``, ``skyline/whatifs``, ``skyline/best`` and ``skyline/simulate``."""

    @server.feature(protocol.PROFILE)
    @wire.answers(UriParams)
    def profile(asked: UriParams) -> object:
        if (trace := server.traces.at(convert.path_of(asked.uri))) is not None:
            return trace.report
        state = server.touch(asked.uri)
        return state.prepared.report if state and state.prepared else None

    @server.feature(protocol.WHATIFS)
    @wire.answers(UriParams)
    def whatifs(asked: UriParams) -> WhatIfReport | None:
        if (trace := server.traces.at(convert.path_of(asked.uri))) is not None:
            return trace.whatifs
        state = server.touch(asked.uri)
        return state.prepared.whatifs if state and state.prepared else None

    @server.feature(protocol.BEST)
    @server.thread()
    @wire.answers(BestParams)
    def best(asked: BestParams) -> BestReport:
        prepared = profiled(server, asked.uri).profiled()
        constraints = Constraints(asked.maxMemoryBytes, Semantics(asked.semantics), asked.rewritable)
        return best_report(prepared.analysis, constraints)

    @server.feature(protocol.SIMULATE)
    @wire.answers(QuestionParams)
    async def simulate(asked: QuestionParams) -> EstimateReport:
        question = Question.parse(asked.batchSize, asked.whatifs)
        if (trace := server.traces.at(convert.path_of(asked.uri))) is not None:
            return trace.estimate(question)
        state = profiled(server, asked.uri)
        answer = state.estimate(question)
        if asked.curve:
            answer = replace(answer, curve=await _curve(state, answer_to=question))
        return answer


async def _curve(state: ScriptState, *, answer_to: Question) -> tuple[CurvePoint, ...]:
    """The batch-size curve under the what-ifs of a question, computed on another thread."""
    changes, prepared = answer_to.choices, state.profiled()
    if changes not in state.curves:
        found = await asyncio.to_thread(curve_under, prepared.analysis, changes)
        if state.prepared is not prepared:
            # A newer profile has arrived: cache only its curves.
            return found
        state.curves[changes] = found
    return state.curves[changes]


def profiled(server: SkylineServer, uri: str) -> ScriptState:
    """The state of a profiled script. Raises SkylineError with the next step if there is no profile."""
    state = server.state_of(uri)
    if state is None or state.prepared is None:
        raise no_profile()
    return state
