"""The timeline of one iteration by lane, and its memory over time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from skyline.errors import UsageError
from skyline.report import protocol
from skyline.report.live_memory import LiveMemoryReport, RecordedBlocks
from skyline.report.protocol import MemoryAtParams, TimelineParams
from skyline.report.timeline_report import TimelineReport
from skyline.report.timelines import Sides, sides_of, window
from skyline.whatif.question import Question
from skyline.whatif.subject import Subject
from skyline_lsp import convert, wire
from skyline_lsp.features.simulate import profiled
from skyline_lsp.server import SkylineServer
from skyline_lsp.state import Prepared

_MOST = 4000


def register(server: SkylineServer) -> None:
    """Answer ``skyline/timeline`` and ``skyline/memoryAt``."""
    pictures = Pictures()

    @server.feature(protocol.TIMELINE)
    @wire.answers(TimelineParams)
    async def timeline(asked: TimelineParams) -> TimelineReport:
        trace = server.traces.at(convert.path_of(asked.uri))
        subject = trace.subject if trace else profiled(server, asked.uri).profiled().analysis.baseline
        question = Question.parse(asked.batchSize, asked.whatifs)
        found = await pictures.sides(subject, question, asked.step)
        return window(found, asked.beginMs, asked.endMs, min(max(asked.most, 1), _MOST))

    @server.feature(protocol.MEMORY_AT)
    @wire.answers(MemoryAtParams)
    async def memory_at(asked: MemoryAtParams) -> LiveMemoryReport:
        if server.traces.at(convert.path_of(asked.uri)) is not None:
            raise UsageError("A profiler trace does not record which lines hold memory")
        prepared = profiled(server, asked.uri).profiled()
        return (await pictures.blocks(prepared)).at(asked.timeMs)


Made = TypeVar("Made")
_REMEMBERED = 8


@dataclass(slots=True)
class Pictures:
    """Cached data of the most recently requested profile or trace. Data of other ones is dropped."""

    _subject: object = None
    _made: OrderedDict[object, object] = field(default_factory=OrderedDict[object, object])

    async def sides(self, subject: Subject, question: Question, step: int | None) -> Sides:
        """Both timelines of an iteration. Raises UsageError if a what-if is invalid."""
        make = partial(sides_of, subject, question.all_choices, step)
        return await self._remembered(subject, (question, step), make)

    async def blocks(self, prepared: Prepared) -> RecordedBlocks:
        """The memory blocks of the recorded iteration."""
        make = partial(RecordedBlocks.of, prepared.profile, prepared.report.iteration_ms.value)
        return await self._remembered(prepared.analysis.baseline, "blocks", make)

    async def _remembered(self, subject: object, key: object, make: Callable[[], Made]) -> Made:
        if subject is not self._subject:
            self._subject = subject
            self._made.clear()
        if key in self._made:
            return cast(Made, self._made[key])
        made = await asyncio.to_thread(make)
        if subject is self._subject:
            self._made[key] = made
            if len(self._made) > _REMEMBERED:
                self._made.popitem(last=False)
        return made
