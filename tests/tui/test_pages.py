"""Pages get their widgets when they first come to the front; what arrived before is on them all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Static

from skyline_tui import messages
from skyline_tui.views.lines import LinesView
from skyline_tui.views.view import View
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.view_tabs import VIEW_KEYS_OF
from skyline_tui.workspace_edit import RewrittenFile

if TYPE_CHECKING:
    from conftest import OpenedApp

Desks = Callable[..., "OpenedApp"]
SIZE = (120, 40)


async def test_a_page_has_widgets_once_it_was_in_front(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        pages = made.app.query(View)
        assert [page.id for page in pages if page.children] == ["overview"]
        for key in (VIEW_KEYS_OF["view-lines"], "1", VIEW_KEYS_OF["view-lines"]):
            await pilot.press(key)
        await pilot.pause()
        assert [page.id for page in pages if page.children] == ["overview", "view-lines"]
        assert len(made.app.query("#line-table")) == 1, "made once"
        assert "softmax" in made.text


async def test_a_page_that_was_left_follows_new_profiles(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("2", "1")
        made.session.batch_size = 64
        await made.session.profile()
        await pilot.pause()
        await pilot.press("2")
        await pilot.pause()
        # 22.5 % of 30 + 4.75 * 64 ms.
        assert "75.2 ms" in made.text or "75.1 ms" in made.text


@pytest.mark.parametrize("late", [False, True], ids=["marked", "no longer marked"])
async def test_lines_that_were_rewritten_are_on_the_page_of_lines(
    opened_app: Desks, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    if late:
        monkeypatch.setattr("skyline_tui.views.lines.FLASH_S", 0.0)
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        rewritten = RewrittenFile(made.session.script, (6,), "train.py:6", "-old\n+new")
        made.app.post_message(messages.FilesWritten((rewritten,)))
        await pilot.pause()
        await pilot.press("2")
        await pilot.pause()
        source = made.app.query_one("#line-source", Source)
        assert source.place == (str(made.session.script), 6)
        assert ("±   6" in str(source.query_one(Static).content)) is not late


async def test_edits_that_were_written_are_chosen_on_the_page_of_differences(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        rewritten = RewrittenFile(made.session.script, (6,), "train.py:6", "-old\n+new")
        made.app.post_message(messages.FilesWritten((rewritten,)))
        await pilot.pause()
        await pilot.press("6")
        await pilot.pause()
        page = str(made.app.query_one("#diff-text", Static).content)
        assert "u undoes it" in page
        assert "+new" in page


async def test_a_page_that_is_asked_for_twice_while_a_profile_arrives_is_made_once(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        # Each key and click has a task of its own.
        asked = [asyncio.create_task(made.app.action_view("view-lines")) for _ in range(2)]
        while not all(task.done() for task in asked):
            made.session.batch_size += 1
            profile = await made.session.latest()
            assert profile is not None
            for page in made.app.query(View):
                page.show(profile)
            await asyncio.sleep(0)
        await asyncio.gather(*asked)
        await pilot.pause()
        assert len(made.app.query("#line-table")) == 1
        assert "softmax" in made.text


async def test_a_resize_of_a_page_without_widgets_is_harmless(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.resize_terminal(80, 24)
        await pilot.press("2")
        await pilot.pause()
        assert made.app.query_one(LinesView).made
        assert all(len(line) <= 80 for line in made.text.splitlines())
