"""Pauses of Textual's pilot that end when nothing is left to do, with the frame of the screen drawn."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

_draw = Screen._compositor_refresh


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
        if self.app.screen._compositor._dirty_regions:
            _draw(self.app.screen)

    monkeypatch.setattr(Pilot, "pause", pause)
    monkeypatch.setattr(Screen, "_compositor_refresh", _drawn_later)


def _drawn_later(screen: Screen[object]) -> None:
    """Leave the frame of the screen in front to the next pause: without a terminal, nobody sees those in between.

    Frames in between take a third of the processor time of a test. Text that a test reads is drawn at that moment.
    """
    if screen.app.is_inline or screen is not screen.app.screen:
        _draw(screen)
    screen._dirty_widgets.clear()


def _at_work(app: App[object]) -> bool:
    waiting = any(not pump._message_queue.empty() or pump._next_callbacks for pump in list(app._registry))
    screen = app.screen
    undrawn = screen._layout_required or screen._repaint_required or bool(screen._dirty_widgets)
    return waiting or undrawn or bool(asyncio.get_running_loop()._ready)  # type: ignore[attr-defined]
