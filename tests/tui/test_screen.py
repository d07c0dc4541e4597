"""What-ifs, lines, errors, staleness, the sheets on top."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from textual.widgets import Input

from skyline_tui import messages
from skyline_tui.messages import Severity
from skyline_tui.screens.diff import Diff
from skyline_tui.screens.explain import Explain
from skyline_tui.screens.limits import Limits
from skyline_tui.screens.sheet import Help
from skyline_tui.widgets.source import Source
from skyline_tui.widgets.whatifs import WhatIfs

SIZE = (120, 40)


async def test_checked_whatifs_are_asked_together(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "down", "space")
        await pilot.pause()
        assert made.session.questions[-1].whatifs == ("fused_optimizer", "checkpointing")
        assert "together (2): 198.1 ms" in made.text
        assert "[x] fused_optimizer" in made.text
        assert not made.session.applied, "in staged mode what-ifs wait for an explicit apply"


async def test_a_click_checks(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        rows = made.text.splitlines()
        row = next(number for number, line in enumerate(rows) if "[ ] num_workers=2" in line)
        await pilot.click(offset=(5, row))
        await pilot.pause()
        assert made.app.query_one(WhatIfs).checked == ("num_workers=2",)
        assert "[x] num_workers=2" in made.text


async def test_two_values_of_one_whatif_exclude_each_other(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "down", "space", "down", "space")
        assert made.app.query_one(WhatIfs).checked == ("num_workers=4",)


async def test_one_that_does_not_apply_says_why_and_stays_unchecked(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("end", "space")
        assert made.app.query_one(WhatIfs).checked == ()
        assert "needs a C++ compiler, and none was found on this machine" in made.toasts


async def test_enter_explains(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(made.app.screen, Explain)
        for part in (
            "the loader keeps up",
            "modelled: a model",
            "exact: training computes the same numbers",
            "0.4 % for the simulation",
        ):
            assert part in made.text, part
        await pilot.press("escape")
        assert not isinstance(made.app.screen, Explain)


async def test_applied_whatifs_are_unchecked_again(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "a")
        await pilot.pause()
        assert made.session.applied[-1].whatifs == ("fused_optimizer",)
        assert made.app.query_one(WhatIfs).checked == ()


async def test_the_diff_shows_what_would_be_written_and_what_not(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("}", "d")
        await pilot.pause()
        assert isinstance(made.app.screen, Diff)
        assert "+batch_size=42" in made.text
        assert "! amp=bf16 is not rewritten: there is no model.forward to wrap" in made.text


@pytest.mark.parametrize("key", ["a", "d"])
async def test_with_nothing_asked_there_is_nothing_to_write(opened_app, key: str) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press(key)
        assert "There is no change to predict yet" in made.toasts


async def test_undo_without_an_apply_says_so(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("u")
        await pilot.pause()
        assert "nothing was applied" in made.toasts


async def test_enter_on_a_line_shows_it_in_its_file(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("l", "down", "down", "enter")
        await pilot.pause()
        source = made.app.query_one("#source", Source)
        assert source.place == (str(made.session.script), 8)
        assert "▶   8 for x, y in loader:" in made.text
        assert "21.8 ms" in made.text


async def test_costs_follow_their_lines_through_an_edit(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("l", "down", "down", "enter")
        await pilot.pause()
        script = made.session.script
        script.write_text("# one more line\n" + script.read_text())
        made.app.query_one("#source", Source).reload()
        await pilot.pause()
        (row,) = (line for line in made.text.splitlines() if " 9 for x, y in loader:" in line)
        assert "21.8 ms" in row


async def test_lines_sort_by_time_memory_and_place(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        orders = []
        for _ in range(4):
            orders.append(next(word for word in ("by time", "by memory", "by place") if word in made.text))
            await pilot.press("s")
            await pilot.pause()
        assert orders == ["by time", "by memory", "by place", "by time"]


async def test_a_stale_profile_is_marked_in_words(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.session.say(profileId="profile-1", stale=True)
        await pilot.pause()
        assert "8 steps stale" in made.text
        assert "182.0 ms" in made.text
        made.session.say(profileId="profile-1", stale=False)
        await pilot.pause()
        assert "stale" not in made.text


async def test_the_later_measurement_is_shown_where_an_earlier_one_stands(opened_app) -> None:
    made = opened_app(alter=lambda profile: replace(profile, set_aside=True))
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "machine busy: an earlier measurement is shown" in made.text
        await pilot.press("n")
        await pilot.pause()
        assert "machine busy" not in made.text
        await pilot.press("n")
        assert "is already shown" in made.toasts


async def test_an_error_shows_its_line_and_its_end_and_the_numbers_stay(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        trace = (
            "The script failed\n"
            + "\n".join(f"  frame {number}" for number in range(30))
            + "\nValueError: bad shape"
        )
        made.session.say(profileId="profile-1", stale=True, error=trace, errorLine=11)
        await pilot.pause()
        for part in (
            "train.py:11",
            "The script failed",
            "ValueError: bad shape",
            "182.0 ms",
            "last successful run",
        ):
            assert part in made.text, part
        assert "frame 3\n" not in made.text
        made.session.say(profileId="profile-1")
        await pilot.pause()
        assert "ValueError" not in made.text


async def test_what_the_trouble_panel_says_is_not_said_twice(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.session.say(error="no training step was found")
        await pilot.pause()
        made.session.post(messages.ServerSaid("no training step was found", Severity.WARNING))
        made.session.post(messages.ServerSaid("something else", Severity.WARNING))
        await pilot.pause()
        assert "something else" in made.toasts
        assert "no training step" not in made.toasts


async def test_news_of_another_script_changes_nothing(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.session.say(uri="file:///elsewhere/train.py", error="not ours", stale=True)
        await pilot.pause()
        assert "not ours" not in made.text
        assert "stale" not in made.text


async def test_progress_has_its_line_until_it_ends(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.session.post(messages.Progressed("Profiling train.py", "measure: 3 of 8", 0.4))
        await pilot.pause()
        assert "40 %  measure: 3 of 8" in made.text
        assert "c cancels" in made.text
        await pilot.press("c")
        await pilot.pause()
        assert "c cancels" not in made.text
        assert "cancelled" in made.toasts


async def test_a_lost_server_is_explained_and_measuring_starts_another(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        made.session.post(messages.ServerLost(3, "MemoryError: out of it"))
        await pilot.pause()
        assert "exit code 3" in made.text
        assert "MemoryError: out of it" in made.text
        await pilot.press("r")
        await pilot.pause()
        assert made.session.stopped
        assert "MemoryError" not in made.text


async def test_help_names_the_keys(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("?")
        await pilot.pause()
        assert isinstance(made.app.screen, Help)
        assert "type a batch size" in made.text
        await pilot.press("escape")


async def test_the_palette_offers_what_the_keys_do(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+p")
        await pilot.pause()
        made.app.screen.query_one(Input).value = "Sort lines"
        await pilot.pause(0.3)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "by memory" in made.text


async def test_leaving_stops_the_session(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.press("q")
    assert made.session.stopped


async def test_o_opens_the_line_under_the_cursor(opened_app, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, int]] = []
    monkeypatch.setattr(
        "skyline_tui.app.edit", lambda app, file, line: opened.append((file, line)) or "no such editor"
    )
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("l", "down", "down", "o")
        await pilot.pause()
        assert opened == [(str(made.session.script), 8)]
        assert "no such editor" in made.toasts


async def test_the_fastest_combination_is_put_on_the_screen_and_written_nowhere(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("f")
        await pilot.pause()
        assert isinstance(made.app.screen, Limits)
        field = made.app.screen.query_one(Input)
        field.value = "2"
        await pilot.press("enter")
        await pilot.pause()
        assert [(one.maxMemoryBytes, one.semantics) for one in made.session.searches] == [
            (2e9, "convergence")
        ]
        assert made.app.query_one(WhatIfs).checked == ("num_workers=4",)
        assert made.session.questions[-1].batchSize == 48
        assert not made.session.applied
        assert re.search(r"batch_size=48 num_workers=4, \d\.\d\dx \(\d\.\d\d–\d\.\d\dx\)", made.toasts)
        assert "extrapolated" not in made.toasts


async def test_the_fastest_combination_beyond_the_measured_curve_says_so(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        search = made.session.best

        async def beyond(limits):
            found = await search(limits)
            return replace(found, estimate=replace(found.estimate, extrapolated=True))

        made.session.best = beyond
        await pilot.press("f")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert "! extrapolated: outside the measured range" in made.toasts


async def test_a_limit_that_is_no_number_is_asked_for_again(opened_app) -> None:
    made = opened_app()
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("f")
        await pilot.pause()
        made.app.screen.query_one(Input).value = ""
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(made.app.screen, Limits)
        await pilot.press("escape")
        assert made.session.searches == []


async def test_news_that_come_while_the_app_closes_are_dropped(opened_app) -> None:
    made = opened_app()

    async def go_on_measuring() -> None:
        while not made.session.stopped:
            made.session.post(messages.Progressed("Profiling train.py", "measure: 3 of 8", 0.4))
            await asyncio.sleep(0)

    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        measuring = asyncio.create_task(go_on_measuring())
    await measuring
