"""Asks one question at a time; while an answer is awaited, only the newest question is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Q = TypeVar("Q")


class LatestWins(Generic[Q]):
    """Keeps a drag from queueing up hundreds of requests: at most one is in flight, the last one is always asked.

    ``ask`` must deal with its own failures.
    """

    def __init__(self, ask: Callable[[Q], Awaitable[None]]) -> None:
        self._ask = ask
        self._waiting: list[Q] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, question: Q) -> None:
        """Ask this, now or as soon as the one in flight is answered, instead of what was waiting."""
        self._waiting = [question]
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())

    def clear(self) -> None:
        """Forget what is waiting."""
        self._waiting = []

    async def idle(self) -> None:
        """Wait until everything put so far is answered or replaced."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Give up on the one in flight too."""
        self.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        while self._waiting:
            await self._ask(self._waiting.pop())
