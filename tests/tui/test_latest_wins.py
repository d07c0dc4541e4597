from __future__ import annotations

import asyncio

from skyline_tui.conversation import LatestWins


async def test_one_in_flight_and_only_the_newest_waits() -> None:
    asked: list[int] = []
    gate = asyncio.Event()

    async def ask(question: int) -> None:
        asked.append(question)
        await gate.wait()

    questions = LatestWins(ask)
    for number in range(100):
        questions.put(number)
        await asyncio.sleep(0)
    assert asked == [0]
    gate.set()
    await questions.idle()
    assert asked == [0, 99]


async def test_after_a_pause_the_next_is_asked_at_once() -> None:
    asked: list[int] = []

    async def ask(question: int) -> None:
        asked.append(question)

    questions = LatestWins(ask)
    questions.put(1)
    await questions.idle()
    questions.put(2)
    await questions.idle()
    assert asked == [1, 2]


async def test_what_is_cleared_is_not_asked() -> None:
    asked: list[int] = []
    gate = asyncio.Event()

    async def ask(question: int) -> None:
        asked.append(question)
        await gate.wait()

    questions = LatestWins(ask)
    questions.put(1)
    await asyncio.sleep(0)
    questions.put(2)
    questions.clear()
    gate.set()
    await questions.idle()
    assert asked == [1]


async def test_closing_gives_up_on_the_one_in_flight() -> None:
    async def ask(question: int) -> None:
        await asyncio.Event().wait()

    questions = LatestWins(ask)
    questions.put(1)
    await asyncio.sleep(0)
    await asyncio.wait_for(questions.close(), 5)
