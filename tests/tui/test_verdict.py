"""The verdict on the first page: both sentences where there is room, and a click that asks for the change."""

from __future__ import annotations

import pytest

from skyline.report.schema import VerdictReport, WallTimeReport
from skyline_tui.widgets.verdict import VerdictLines
from skyline_tui.widgets.whatifs import WhatIfs

BOUND, ADVICE = (
    "The model's forward and backward passes take 80 %",
    "Fused optimizer step (fused=True): 1.03x",
)


@pytest.mark.parametrize(("size", "both"), [((80, 24), False), ((120, 40), True)])
async def test_both_sentences_where_there_is_room(opened_app, size, both) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        assert ADVICE in made.text
        assert (BOUND in made.text) is both


@pytest.mark.parametrize(("size", "shown"), [((80, 24), False), ((120, 40), True)])
async def test_a_long_mean_iteration_is_told_below(opened_app, size, shown) -> None:
    made = opened_app(live=False)
    remark = "Mean iteration 21.0 ms: 2.10x the median, 1 of 10 long; other 52 %"
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        lines = made.app.query_one(VerdictLines)
        verdict = VerdictReport(BOUND, ADVICE, None)
        lines.show(verdict, WallTimeReport(10, 1, 21.0, 0.48, 0.0, 0.0, 0.52, None, remark=remark))
        await pilot.pause()
        assert (remark in made.text) is shown


LONG = (
    "No change that keeps convergence unchanged is certain to gain 2.0 % or more; 3 may. Another change helps: "
    "Batch size 64: 1.52x (1.31–1.78x), measured; convergence may change."
)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_long_sentence_wraps(opened_app, size) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        lines = made.app.query_one(VerdictLines)
        lines.show(VerdictReport(BOUND, LONG, None))
        await pilot.pause()
        assert LONG.split() in [
            made.text.split()[at : at + len(LONG.split())] for at in range(len(made.text.split()))
        ]


async def test_a_click_asks_for_the_change(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert made.app.query_one(WhatIfs).checked == ()
        await pilot.click(VerdictLines)
        await pilot.pause()
        assert made.app.query_one(WhatIfs).checked == ("fused_optimizer",)


async def test_without_a_verdict_it_takes_no_room(opened_app) -> None:
    made = opened_app(live=False)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        made.app.query_one(VerdictLines).show(None)
        await pilot.pause()
        assert not made.app.query_one(VerdictLines).display
