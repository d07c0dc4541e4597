"""Data for timeline and memory views, computed on another thread, once per question, and cached."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from skyline.report.live_memory import RecordedBlocks
from skyline.report.timelines import Sides, sides_of
from skyline.whatif.question import Question
from skyline.whatif.subject import Subject
from skyline_lsp.state import Prepared

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
        made = await asyncio.get_running_loop().run_in_executor(None, make)
        if subject is self._subject:
            self._made[key] = made
            if len(self._made) > _REMEMBERED:
                self._made.popitem(last=False)
        return made
