"""The pages other than the first one, at the sizes that count."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.events import MouseScrollUp
from textual.widgets import Static, Tree

from skyline.analysis.line_parts import LinePart
from skyline.report.schema import ProfileReport
from skyline_tui.views.log import LogView
from skyline_tui.widgets.lanes import Lanes
from skyline_tui.widgets.sort_table import SortTable
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.view_tabs import SHORT_TITLES, VIEW_KEYS_OF, VIEWS

if TYPE_CHECKING:
    from conftest import OpenedApp

SIZE = (120, 40)
Desks = Callable[..., "OpenedApp"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 50)])
async def test_every_page_is_reached_by_its_key_and_fits(opened_app: Desks, size: tuple[int, int]) -> None:
    made = opened_app()
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        for view, title in VIEWS.items():
            key = VIEW_KEYS_OF[view]
            await pilot.press(key)
            await pilot.pause()
            assert f"[{key} {title if size[0] > 80 else SHORT_TITLES[view]}]" in made.text
            assert all(f"{other} " in made.text for other in VIEW_KEYS_OF.values())
            assert made.app.query_one(f"#{view}").display
            assert "182.0 ms ±3.6 per iteration" in made.text, "the headline stays"
            assert all(len(line) <= size[0] for line in made.text.splitlines())
        await pilot.press("escape")
        assert made.app.query_one("#overview").display


async def test_a_click_on_a_title_goes_there(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        row = next(line for line in made.text.splitlines() if "Timeline" in line)
        await pilot.click("#view-tabs", offset=(row.index("Timeline") + 2, 0))
        assert made.app.query_one("#view-timeline").display


async def test_the_timeline_tells_what_is_under_the_cursor_and_zooms(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("3")
        await pilot.pause()
        lanes = made.app.query_one(Lanes)
        for part in ("measured, while recorded: 180.0 ms", "simulated: 181.8 ms", "aten::mm", "train.py:9"):
            assert part in made.text, part
        await pilot.press("n")
        await pilot.pause()
        assert "MmBackward0" in made.text
        await pilot.press("z")
        await pilot.pause()
        asked = made.session.timelines[-1]
        assert asked.beginMs is not None
        assert (asked.beginMs, asked.endMs) == (lanes.window.begin_ms, lanes.window.end_ms)
        assert asked.endMs is not None
        assert asked.endMs - asked.beginMs == pytest.approx(120.0)
        await pilot.press("home")
        assert (lanes.window.begin_ms, lanes.window.end_ms) == (0.0, lanes.whole_ms)
        await pilot.press("enter")
        await pilot.pause()
        assert made.app.query_one("#line-source", Source).place == (str(made.session.script), 9)


async def test_the_wheel_zooms_at_the_pointer_and_a_drag_pans(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("3")
        await pilot.pause()
        lanes = made.app.query_one(Lanes)
        await pilot._post_mouse_events([MouseScrollUp], lanes, offset=(60, 3), button=0)
        await pilot.pause()
        width = lanes.window.end_ms - lanes.window.begin_ms
        assert width == pytest.approx(lanes.whole_ms / 1.5)
        begin = lanes.window.begin_ms
        await pilot.mouse_down(lanes, offset=(60, 3))
        await pilot.hover(lanes, offset=(50, 3))
        await pilot.mouse_up(lanes, offset=(50, 3))
        assert lanes.window.begin_ms > begin
        assert lanes.window.end_ms - lanes.window.begin_ms == pytest.approx(width)


async def test_the_timeline_is_of_the_question_on_the_screen(opened_app: Desks) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("3")
        await pilot.pause()
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert made.session.timelines[-1].batchSize == 33


@pytest.mark.parametrize("library", [True, False], ids=["textual-plot", "columns"])
async def test_memory_at_the_cursor(
    opened_app: Desks, library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library:
        pytest.importorskip("textual_plot")
    else:
        monkeypatch.setitem(sys.modules, "skyline_tui.widgets.memory_plot", None)
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("4")
        await pilot.pause()
        first = made.session.moments[-1]
        assert "(the peak)" in made.text
        assert "train.py:9" in made.text
        assert "loss = model(x, y)" in made.text
        await pilot.press("right", "right")
        await pilot.pause()
        assert made.session.moments[-1] > first
        await pilot.press("x")
        await pilot.pause()
        assert made.session.moments[-1] == first
        await pilot.click("#memory-plot", offset=(40, 5))
        await pilot.pause()
        assert made.session.moments[-1] != first


async def test_a_profile_without_allocations_says_so(opened_app: Desks) -> None:
    made = opened_app(alter=lambda profile: replace(profile, memory=replace(profile.memory, timeline=())))
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("4")
        await pilot.pause()
        assert "no allocations were recorded" in made.text


async def test_lines_sort_by_key_and_by_click_and_the_source_follows(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("2")
        await pilot.pause()
        table = made.app.query_one("#line-table", SortTable)
        assert [row.line for row in table.order] == [88, 90, 8, 56, 12, 0]
        await pilot.press("R")
        assert [row.line for row in table.order] == [12, 56, 8, 90, 88, 0], "the rest stays at the end"
        await pilot.press("s", "s", "s")
        assert [row.line for row in table.order] == [56, 88, 90, 8, 12, 0]
        await pilot.press("down", "down", "down", "down")
        await pilot.pause()
        assert made.app.query_one("#line-source", Source).place == (str(made.session.script), 12)


def in_modules(profile: ProfileReport) -> ProfileReport:
    first, second, *rest = profile.lines
    first = replace(
        first, parts=(LinePart("blocks.0.att", "", first.self_ms / 2, 1.0),), module="blocks.1.att"
    )
    second = replace(second, module="blocks.1.mlp")
    return replace(profile, lines=(first, second, *rest))


async def test_a_module_leaves_its_lines_only(opened_app: Desks) -> None:
    made = opened_app(alter=in_modules)
    async with made.app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("2")
        await pilot.pause()
        tree = made.app.query_one(Tree)
        tree.root.expand_all()
        await pilot.press("t")
        await pilot.pause()
        blocks = tree.root.children[0]
        assert str(blocks.label).startswith("blocks")
        tree.select_node(next(node for node in blocks.children if str(node.label).startswith("0")))
        tree.action_select_cursor()
        await pilot.pause()
        table = made.app.query_one("#line-table", SortTable)
        assert [row.line for row in table.order] == [88]
        assert "20.5 ms" in made.text, "half of the line's time is in this module"


async def test_an_earlier_profile_beside_this_one(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("6")
        await pilot.pause()
        await pilot.pause()
        assert [asked.before for asked in made.session.compared_profiles] == ["earlier"]
        # The page is longer than the screen.
        page = str(made.app.query_one("#diff-text", Static).content)
        for part in ("batch 48", "batch 32", "+batch_size=32", "Lines that changed most", "Notes"):
            assert part in page, part


async def test_the_times_over_the_commits(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("6")
        await pilot.pause()
        await pilot.press("end")
        await pilot.pause()
        await pilot.pause()
        page = str(made.app.query_one("#diff-text", Static).content)
        chart, _, rest = page.partition("▲ slower")
        assert "Step time, oldest commit first" in chart
        # The second of three columns of four cells is marked.
        assert chart.splitlines()[-1] == " " * 14 + "▲"
        assert "222222222 (change 2): +50.0 % per sample" in rest.replace("\n", " ")
        assert "train.py:9" in rest


async def test_everything_that_was_said_can_be_read_again(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.app.notify("a [b]strange[/b] word", severity="warning")
        await pilot.press("8")
        await pilot.pause()
        log = made.app.query_one(LogView).text
        assert "measure: 2" in log
        assert "a [b]strange[/b] word" in log
        assert "a [b]strange[/b] word" in made.text
