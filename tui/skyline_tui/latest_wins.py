"""Sends one question at a time; while it is pending, only the newest question waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Q = TypeVar("Q")


class LatestWins(Generic[Q]):
    """Prevents a drag from queueing hundreds of requests: at most one is pending, and the last one is always sent.

    ``ask`` must handle its own failures.
    """

    def __init__(self, ask: Callable[[Q], Awaitable[None]]) -> None:
        self._ask = ask
        self._waiting: list[Q] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, question: Q) -> None:
        """Send this question now, or after the pending one, in place of the waiting one."""
        self._waiting = [question]
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())

    def clear(self) -> None:
        """Discard the waiting question."""
        self._waiting = []

    async def idle(self) -> None:
        """Wait until every question is answered or replaced."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Cancel the pending question too."""
        self.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        while self._waiting:
            await self._ask(self._waiting.pop())
