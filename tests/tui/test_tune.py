"""The page of a search by measured trials."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.widgets import Checkbox, Input

from skyline_tui.screens.limits import TuneLimits

if TYPE_CHECKING:
    from conftest import OpenedApp

    from skyline.tune.trials import TuneTrial

Desks = Callable[..., "OpenedApp"]


async def test_a_search_shows_its_budget_its_trials_and_its_outcome(opened_app: Desks) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("T")
        assert "No search yet" in made.text
        await pilot.press("t")
        await pilot.pause()
        made.app.screen.query_one(Input).value = "2"
        await pilot.press("enter")
        await pilot.pause()
        (asked,) = made.session.searched
        assert (asked.budgetSeconds, asked.allow, asked.resume) == (120.0, "exact", False)
        assert "4:00 of 5 min left" in made.text
        assert "Best so far: 1.09x" in made.text
        await pilot.press("t")
        assert "A search is running" in made.toasts
        made.session.search_on.set()
        await pilot.pause()
        text = made.text
        assert "92 s of 120 s used" in text
        best = next(row for row in text.splitlines() if "◀ best" in row)
        assert "fused_optimizer num_workers=4" in best
        assert "dropped: no C++" in text
        assert "samples per second with fused_optimizer num_workers=4" in text
        # The cursor is on the best row: it is written into the code.
        await pilot.press("a")
        await pilot.pause()
        (written,) = made.session.applied
        assert (written.batchSize, written.whatifs) == (None, ("fused_optimizer", "num_workers=4"))


async def test_trials_of_an_earlier_search_are_shown_and_may_be_gone_on_from(
    opened_app: Desks, trials: tuple[TuneTrial, ...]
) -> None:
    made = opened_app(kept_trials=trials)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("T")
        await pilot.pause()
        assert "3 trials of the last search" in made.text
        await pilot.press("t")
        await pilot.pause()
        assert made.app.screen.query_one(Checkbox).value
        made.app.screen.query_one(Input).value = "0"
        await pilot.press("enter")
        assert "Type a number of minutes" in made.toasts
        made.app.screen.query_one(Input).value = "1"
        await pilot.press("enter")
        await pilot.pause()
        assert made.session.searched[0].resume


async def test_a_refused_search_says_why_and_nothing_is_written_without_a_trial(opened_app: Desks) -> None:
    made = opened_app(no_search="The script is being profiled")
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("T", "a")
        await pilot.pause()
        assert "There is no trial yet" in made.toasts
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(made.app.screen, TuneLimits)
        await pilot.press("enter")
        await pilot.pause()
        assert "! The script is being profiled" in made.text
        assert made.session.applied == []
