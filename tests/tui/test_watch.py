"""The page of watched runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from skyline_tui.views.watch import WatchView
from skyline_tui.widgets.column_chart import column_chart, column_marks

if TYPE_CHECKING:
    from conftest import OpenedApp

    from skyline.watch.watch_report import WatchReport

Desks = Callable[..., "OpenedApp"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_run_shows_times_shares_alerts_and_progress(
    opened_app: Desks, watched_run: WatchReport, size: tuple[int, int]
) -> None:
    made = opened_app(watched_run=watched_run)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("W")
        await pilot.pause()
        text = made.text
        for part in (
            "running",
            "iteration 4,000",
            "loss 0.657",
            "epoch 3.2, eval_accuracy 0.741 (target 0.759)",
            "waits for data 28%",
            "forward 30%",
            "backward and step 42%",
            "loader_stalls",
        ):
            assert part in text
        assert text.index("loader_stalls") < text.index("checkpoint_stalls"), "the latest first"
        if size[1] > 30:
            assert "40.3 ms per batch" in text
            await pilot.press("down")
            await pilot.pause()
            assert "at iteration 1,200" in made.text


async def test_a_page_in_front_follows_the_run_and_one_behind_does_not(
    opened_app: Desks, watched_run: WatchReport
) -> None:
    made = opened_app(watched_run=replace(watched_run, alerts=()))
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        view = made.app.query_one(WatchView)
        view._ask()
        await pilot.pause()
        assert made.session.runs_asked == []
        await pilot.press("W")
        await pilot.pause()
        assert set(made.session.runs_asked) == {None}
        assert "No rule has found a problem" in made.text
        made.session.watched_run = replace(watched_run, state="ended", exit_code=1)
        view._ask()
        await pilot.pause()
        assert "ended with exit code 1" in made.text
        assert "loader_stalls" in made.text


async def test_enter_opens_the_line_of_an_alert_and_keys_go_to_other_runs(
    opened_app: Desks, watched_run: WatchReport
) -> None:
    made = opened_app(watched_run=watched_run)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("W")
        await pilot.pause()
        await pilot.press("full_stop")
        assert "There is no later run." in made.toasts
        await pilot.press("comma")
        await pilot.pause()
        assert made.session.runs_asked[-1] == watched_run.names[1]
        assert "run 2 of 2" in made.text
        await pilot.press("enter")
        await pilot.pause()
        assert made.app.query_one("#view-lines").display


async def test_a_script_that_was_never_watched_says_how(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("W")
        await pilot.pause()
        assert "skyline watch train.py" in made.text


def test_columns_are_as_high_as_their_values() -> None:
    chart = column_chart([0.0, 4.0, 8.0, 16.0], ("8 ms", "0 ms"), 8.0, 26, 2).plain.splitlines()
    assert chart == ["    8 ms │        ████████", "    0 ms │    ████████████"]
    # Values that share a cell are averaged, and none is left out.
    wide = column_chart([1.0] * 50 + [3.0] * 50, ("4", "0"), 4.0, 20, 1).plain
    assert wide == "       4 │▂▂▂▂▂▆▆▆▆▆"
    # Four columns of four cells, the third of them marked; of many values several share a cell.
    assert column_marks(4, [2], 26).plain == " " * 18 + "▲"
    assert column_marks(100, [0, 99], 20).plain == " " * 10 + "▲        ▲"
