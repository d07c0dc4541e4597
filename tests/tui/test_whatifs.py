"""The list of what-ifs: those that apply first, their other values, the reasons of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from skyline.interval import Interval
from skyline.report.schema import BaselineReport, EstimateReport
from skyline_tui.widgets.whatif_rows import HEAD, REST, whatif_rows
from skyline_tui.widgets.whatifs import WhatIfs

if TYPE_CHECKING:
    from conftest import Desk

SIZE = (120, 40)
NOW = BaselineReport(Interval(100.0, 98.0, 102.0), None, Interval.exact(1e9), 0.004)
WHY = "no DistributedDataParallel joins the gradients; with several ranks profile it so: --ranks 2"


def estimate(name: str, change: float, *, reason: str | None = None, values: int = 0) -> EstimateReport:
    time = 100.0 + change
    return EstimateReport(
        name=name.partition("=")[0],
        value=name.partition("=")[2],
        title=name,
        iteration_ms=Interval(time, time - 2, time + 2),
        change_ms=Interval(change, change - 2, change + 2),
        throughput=None,
        peak_bytes=Interval.exact(0.8e9),
        speedup=100.0 / time,
        applicable=reason is None,
        reason=reason,
        semantics="convergence" if "accumulation" in name else "exact",
        basis="model-only",
        assumptions=(),
        rewrite="none",
        rewrite_reason=None,
        values=tuple(map(str, range(values))),
    )


CATALOGUE = {
    item.name: item
    for item in (
        estimate("amp=bf16", -40.0),
        estimate("grad_accumulation=2", 31.0, values=4),
        *(estimate(f"what_if_number_{number}", -1.0, values=2) for number in range(10)),
        *(estimate(f"not_here_number_{number}", 0.0, reason=WHY) for number in range(13)),
    )
}


@pytest.mark.parametrize("width", [50, 56, 78, 120])
def test_rows_fit_and_reasons_are_told_in_full(width: int) -> None:
    rows = dict(whatif_rows(CATALOGUE, ("amp",), NOW, width))
    assert list(rows) == [HEAD, *list(CATALOGUE)[:12], REST, *list(CATALOGUE)[12:]]
    for row in rows.values():
        assert all(len(line) <= width for line in row.plain.splitlines()), row.plain
    assert "do not apply here (13)" in rows[REST].plain
    assert rows["amp"].plain.startswith("[x] amp")
    reason = rows["not_here_number_3"].plain
    assert reason.startswith("[!] ")
    assert " ".join(reason.split())[4:].partition(" ")[2] == WHY
    assert "‹›" in rows["grad_accumulation"].plain
    assert "‹›" not in rows["amp"].plain


def test_a_word_becomes_shorter_before_a_name_does() -> None:
    rows = dict(whatif_rows({"grad_accumulation=2": CATALOGUE["grad_accumulation"]}, (), NOW, 56))
    assert "grad_accumulation=2 ‹›" in rows["grad_accumulation=2"].plain
    assert "conv." in dict(whatif_rows(CATALOGUE, (), NOW, 52))["grad_accumulation"].plain


async def test_keys_go_through_the_values_of_a_row(desk: Callable[..., Desk]) -> None:
    made = desk(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "right")
        await pilot.pause()
        assert made.session.questions[-1].whatifs == ("checkpointing=all",)
        assert "[ ] checkpointing=all ‹›" in made.text
        asked = len(made.session.questions)
        await pilot.press("left", "minus")
        await pilot.pause()
        await pilot.press("plus", "plus")
        await pilot.pause()
        assert "[ ] checkpointing=all ‹›" in made.text
        values = [question.whatifs[0] for question in made.session.questions[asked:]]
        assert values == ["checkpointing=fit"], "what is known is not asked again"


async def test_a_checked_row_stays_checked_at_another_value(desk: Callable[..., Desk]) -> None:
    made = desk(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("space", "down", "space", "right")
        await pilot.pause()
        assert made.app.query_one(WhatIfs).checked == ("fused_optimizer", "checkpointing=all")
        assert made.session.questions[-1].whatifs == ("fused_optimizer", "checkpointing=all")


async def test_one_value_only_is_said(desk: Callable[..., Desk]) -> None:
    made = desk(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("right")
        assert "fused_optimizer has one value only" in made.toasts
        assert made.session.questions == []


async def test_the_explanation_has_values_and_what_it_costs_once(desk: Callable[..., Desk]) -> None:
    made = desk(live=False)
    async with made.app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "enter")
        await pilot.pause()
        for part in ("[default]  all  fit", "38.0 s", "paid back after 2,300 iterations"):
            assert part in made.text, part
