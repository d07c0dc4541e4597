"""A prediction measured from the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from skyline_tui.screens.sheet import VerifiedSheet
from skyline_tui.widgets.whatifs import WhatIfs

if TYPE_CHECKING:
    from conftest import OpenedApp

SIZE = (120, 40)


async def test_the_question_is_measured_and_shown_beside_its_prediction(
    opened_app: Callable[..., OpenedApp],
) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "v")
        await pilot.pause()
        assert [asked.whatifs for asked in made.session.verified] == [("fused_optimizer",)]
        assert isinstance(made.app.screen, VerifiedSheet)
        for part in (
            "outside the predicted interval",
            "predicted 5.0 % too long",
            "176.9 ms",
            "168.5 ms",
            "1.8 GB (-100 MB)",
            "1.004 (0.985 to 1.020) in 8 rounds",
            "kept in the ledger as 3f2a",
        ):
            assert part in made.text, part
        await pilot.press("escape", "enter")
        await pilot.pause()
        assert "your ledger" in made.text, "what was learnt is told at once"
        assert "in 1 of 1 case" in made.text


async def test_what_does_not_count_says_so_first(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(live=False, discarded="the null scatters too much")
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("space", "v")
        await pilot.pause()
        assert "discarded: the null scatters too much" in made.text
        assert "Measure when it is quiet." in made.text
        assert "predicted interval" not in made.text


async def test_what_cannot_be_measured_says_why(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(live=False, no_verdict="there is no rewrite for this yet")
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "v")
        await pilot.pause()
        assert not isinstance(made.app.screen, VerifiedSheet)
        assert "there is no rewrite for this yet" in made.toasts


@pytest.mark.parametrize("key", ["c", "escape"])
async def test_it_can_be_cancelled_and_the_question_stays(
    opened_app: Callable[..., OpenedApp], key: str
) -> None:
    made = opened_app(live=False, endless=True)
    async with made.app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("space", "v")
        await pilot.pause()
        assert "25 %  measure: round 2 of 8" in made.text
        await pilot.press("v")
        assert "verify when that is done" in made.toasts
        await pilot.press(key)
        await pilot.pause()
        assert "Verifying was cancelled." in made.toasts
        assert "Not verified" not in made.toasts
        assert not isinstance(made.app.screen, VerifiedSheet)
        assert made.app.query_one(WhatIfs).checked == ("fused_optimizer",)
        assert len(made.session.verified) == 1


async def test_nothing_asked_is_nothing_to_verify(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("v")
        assert "There is no change to predict yet" in made.toasts
        assert made.session.verified == []
