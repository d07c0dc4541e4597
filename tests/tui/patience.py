"""Pauses of Textual's pilot that end when nothing is left to do."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest
from textual.app import App
from textual.pilot import Pilot


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pause end when nothing is left to do.

    Textual judges by the processor time it gets, so that a busy machine makes it go on too early.
    """
    impatient = Pilot.pause

    async def pause(self: Pilot[object], delay: float | None = None) -> None:
        await impatient(self, delay)
        if delay is not None:
            return
        calm, until = 0, monotonic() + 20
        while calm < 3 and monotonic() < until:
            await asyncio.sleep(0.005)
            calm = 0 if _at_work(self.app) else calm + 1
        self.app.screen._on_timer_update()

    monkeypatch.setattr(Pilot, "pause", pause)


def _at_work(app: App[object]) -> bool:
    waiting = any(not pump._message_queue.empty() or pump._next_callbacks for pump in list(app._registry))
    screen = app.screen
    undrawn = screen._layout_required or screen._repaint_required or bool(screen._dirty_widgets)
    return waiting or undrawn or bool(asyncio.get_running_loop()._ready)  # type: ignore[attr-defined]
