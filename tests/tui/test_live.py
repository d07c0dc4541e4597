"""Live mode: the code follows the question on the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from skyline_tui.screens.sheet import Sheet
from skyline_tui.widgets import source
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.whatifs import WhatIfs

if TYPE_CHECKING:
    from conftest import OpenedApp

SIZE = (120, 40)
Desks = Callable[..., "OpenedApp"]


async def test_a_toggle_writes_at_once_and_is_no_question_any_more_once_measured(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space")
        await pilot.pause()
        assert [asked.whatifs for asked in made.session.applied] == [("fused_optimizer",)]
        assert "rewritten" in made.toasts
        assert made.app.query_one(WhatIfs).checked == ()


async def test_a_second_toggle_before_the_measurement_writes_both_in_place_of_the_first(
    opened_app: Desks,
) -> None:
    made = opened_app(slow=True)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        before = made.session.script.read_bytes()
        await pilot.press("space")
        await pilot.pause()
        assert "[w] fused_optimizer" in made.text
        assert "written: fused_optimizer" in made.text
        await pilot.press("down", "space")
        await pilot.pause()
        assert made.session.applied[-1].whatifs == ("fused_optimizer", "checkpointing")
        assert len(made.session.before) == 1, "the first was taken back: one undo brings all of it back"
        await pilot.press("u")
        await pilot.pause()
        assert made.session.script.read_bytes() == before
        assert made.app.query_one(WhatIfs).checked == ()


async def test_what_was_written_lights_up_and_its_diff_is_one_key_away(
    opened_app: Desks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a busy machine takes to look.
    monkeypatch.setattr(source, "FLASH_S", 600.0)
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space")
        await pilot.pause()
        assert made.app.query_one(Source).place == (str(made.session.script), 6)
        assert "±   6" in made.text
        await pilot.press("d")
        await pilot.pause()
        assert isinstance(made.app.screen, Sheet)
        assert "+new" in made.text


async def test_in_staged_mode_nothing_is_written(opened_app: Desks) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "}", "enter")
        await pilot.pause()
        assert made.session.applied == []
        await pilot.press("m", "down", "space")
        await pilot.pause()
        assert len(made.session.applied) == 1, "live from now on: all that is asked is written"
        assert made.session.applied[0].batchSize == 42
