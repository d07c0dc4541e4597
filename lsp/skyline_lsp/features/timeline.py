"""The timeline of one iteration by lane, and its memory over time."""

from __future__ import annotations

from typing import Any

from skyline.errors import SkylineError, UsageError
from skyline.report import protocol
from skyline.report.protocol import MemoryAtParams, TimelineParams
from skyline.report.timelines import window
from skyline.whatif.question import Choice, Question
from skyline_lsp import convert, wire
from skyline_lsp.features.simulate import profiled
from skyline_lsp.pictures import Pictures
from skyline_lsp.server import SkylineServer

_MOST = 4000


def register(server: SkylineServer) -> None:
    """Answer ``skyline/timeline`` and ``skyline/memoryAt``."""
    pictures = Pictures()

    @server.feature(protocol.TIMELINE)
    async def timeline(params: wire.Json) -> Any:
        asked = wire.receive(params, TimelineParams)
        try:
            trace = server.traces.at(convert.path_of(asked.uri))
            if trace is None:
                prepared = profiled(server, asked.uri).prepared
                assert prepared is not None
                subject = prepared.analysis.baseline
            else:
                subject = trace.subject
            question = Question(asked.batchSize, tuple(Choice.parse(text) for text in asked.whatifs))
            found = await pictures.sides(subject, question, asked.step)
            return wire.send(window(found, asked.beginMs, asked.endMs, min(max(asked.most, 1), _MOST)))
        except SkylineError as error:
            raise wire.failed(error) from error

    @server.feature(protocol.MEMORY_AT)
    async def memory_at(params: wire.Json) -> Any:
        asked = wire.receive(params, MemoryAtParams)
        try:
            if server.traces.at(convert.path_of(asked.uri)) is not None:
                raise UsageError("A profiler trace does not record which lines hold memory")
            prepared = profiled(server, asked.uri).prepared
            assert prepared is not None
            return wire.send((await pictures.blocks(prepared)).at(asked.timeMs))
        except SkylineError as error:
            raise wire.failed(error) from error
