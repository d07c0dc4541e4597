"""The page of plans: choices, table, reasons, timeline, code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Input, Select

from skyline.report.plan_report import PlanRow
from skyline_tui.views.plan import PlanView
from skyline_tui.widgets.lanes import Lanes
from skyline_tui.widgets.sort_table import SortTable

if TYPE_CHECKING:
    from conftest import OpenedApp
    from textual.pilot import Pilot


async def choose(pilot: Pilot[None]) -> None:
    """The first cluster, with the keys alone."""
    await pilot.press("9")
    await pilot.pause()
    await pilot.press("enter", "down", "enter")
    await pilot.pause()


def table_of(made: OpenedApp) -> SortTable[PlanRow]:
    return made.app.query_one("#plan-table", SortTable)


async def test_an_empty_page_says_the_next_step(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("9")
        await pilot.pause()
        assert "No plan yet. Choose a cluster" in made.text
        assert isinstance(made.app.focused, Select)
        await pilot.press("x")
        assert "choose a cluster first" in made.toasts
        await pilot.press("a")
        assert "Skyline writes code only for data and sharded parallelism (ddp, fsdp)" in made.toasts
        assert not made.session.planned


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_chosen_cluster_gives_a_ranked_table_with_reasons(
    opened_app: Callable[..., OpenedApp], size: tuple[int, int]
) -> None:
    made = opened_app()
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        await choose(pilot)
        (asked,) = made.session.planned
        assert (asked.cluster, asked.model, asked.gpus) == ("dgx-a100", "", "")
        first, second = table_of(made).order
        assert (first.label, second.label) == ("ddp 8, micro-batch 32 x 1", "fsdp 8, micro-batch 32 x 1")
        assert made.app.focused is table_of(made)
        await pilot.press("down")
        await pilot.pause()
        text = made.app.query_one("#plan-text").render().plain
        assert "15 % slower than the fastest on 8 GPUs: communication +15 %" in " ".join(text.split())
        assert "ddp 8, micro-batch 64 x 1 on 8 GPUs needs 97.1 GB of 80.8 GB" in " ".join(text.split())
        assert "126: does not fit the GPU's memory" in text


async def test_fields_narrow_the_question_and_cost_is_shown(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        assert "cost" not in made.text
        made.app.query_one("#plan-amount", Input).focus()
        await pilot.press("1", "0", "M", "enter")
        await pilot.pause()
        assert made.session.planned[-1].amount == "10M"
        assert "cost" in made.text
        assert "$28" in made.text


async def test_a_model_is_counted_in_tokens(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        made.app.query_one("#plan-model", Select).value = "llama3-8b"
        await pilot.pause()
        assert [one.model for one in made.session.planned] == ["", "llama3-8b"]
        assert "tokens/s" in made.text
        assert table_of(made).order


async def test_a_row_opens_as_a_timeline_and_closes(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        await pilot.press("down", "enter")
        await pilot.pause()
        (asked,) = made.session.opened
        assert (asked.plan, asked.row) == (made.session.planned[0], 2)
        view = made.app.query_one(PlanView)
        lanes = view.query_one(Lanes)
        assert lanes.display
        assert made.app.focused is lanes
        assert "compute" in made.text
        assert "communication" in made.text
        # One heading: a plan has no measured side.
        assert len([row for row in lanes._rows if row.lane is None]) == 1
        await pilot.press("plus")
        await pilot.pause()
        assert made.session.opened[-1].endMs == pytest.approx(80 / 1.5, rel=0.05)
        await pilot.press("escape")
        await pilot.pause()
        assert view.display
        assert not lanes.display
        assert made.app.focused is table_of(made)
        await pilot.press("escape")
        assert not view.display


async def test_the_mouse_chooses_and_opens(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        table = table_of(made)
        await pilot.click(table, offset=(5, 3))
        await pilot.pause()
        assert table.current is not None
        assert table.current.rank == 2
        await pilot.click(table, offset=(5, 3))
        await pilot.pause()
        assert [one.row for one in made.session.opened] == [2]


async def test_the_code_of_data_parallelism_is_written(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        await pilot.press("a")
        await pilot.pause()
        assert [one.whatifs for one in made.session.applied] == [("data_parallel=8",)]
        await pilot.press("down", "a")
        await pilot.pause()
        assert len(made.session.applied) == 1
        assert "Skyline writes code only for data and sharded parallelism (ddp, fsdp)" in made.toasts


async def test_a_row_is_written_for_perfetto(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        await pilot.press("x")
        await pilot.pause()
        (asked,) = made.session.exported
        assert (asked.row, asked.path) == (1, "train.dgx-a100.1.perfetto.json.gz")
        assert "train.dgx-a100.1.perfetto.json.gz is written" in made.toasts


async def test_a_refusal_is_on_the_page_and_can_be_asked_again(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(no_plan="This script never moves its model to a GPU")
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        assert "! This script never moves its model to a GPU" in made.text
        assert "Move model and batches" in made.text
        made.session.no_plan = ""
        made.app.query_one("#plan-gpus", Input).focus()
        await pilot.press("enter")
        await pilot.pause()
        assert len(made.session.planned) == 2
        assert table_of(made).order


async def test_no_strategy_that_fits_says_the_next_step(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await choose(pilot)
        made.app.query_one("#plan-gpus", Input).focus()
        await pilot.press("1", "enter")
        await pilot.pause()
        assert not table_of(made).order
        assert "No strategy fits. Take more GPUs" in made.text
