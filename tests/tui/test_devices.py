"""The script on GPUs that are not here, asked for from the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skyline.analysis.gpu_costs import GpuRunCost, Span
from skyline.interval import Interval
from skyline.report.device_rows import (
    DEVICES_SCHEMA,
    DeviceReport,
    DevicesReport,
    LargestBatchReport,
    PriceReport,
)
from skyline_tui.views.devices import DevicesView
from skyline_tui.widgets.sort_table import SortTable

if TYPE_CHECKING:
    from conftest import OpenedApp


def around(value: float, share: float) -> Interval:
    return Interval(value, value * (1 - share), value * (1 + share))


def make_devices(script: Path) -> DevicesReport:
    """A small GPU on which the script is too large, and a large one without a price."""

    def run(batch_size: int, time_ms: float, price: float | None) -> GpuRunCost:
        iterations = 4096 / batch_size
        time = around(time_ms, 0.3)
        seconds = time.scaled(iterations / 1e3)
        return GpuRunCost(
            batch_size=batch_size,
            iteration_ms=time,
            throughput=time.inverse(1000.0 * batch_size),
            peak_bytes=400_000_000 + 47_000_000 * batch_size,
            busy_share=0.8,
            power_watts=around(50.0, 0.4),
            iterations=iterations,
            time_s=seconds,
            cost_usd=None if price is None else seconds.scaled(price / 3600),
            energy_kwh=seconds.scaled(50 / 3.6e6),
            carbon_g=seconds.scaled(0.01),
        )

    def device(name: str, usable: int, price: float | None, fits: str, largest: int) -> DeviceReport:
        listed = PriceReport(
            "Cloud", "small", "here", 1, price or 0.0, price or 0.0, "2026-01", "a list", False
        )
        return DeviceReport(
            gpu=name,
            full_name=f"Example {name}",
            own=False,
            memory_bytes=usable,
            usable_bytes=usable,
            fits=fits,
            largest_batch=LargestBatchReport(largest, True, False, ""),
            as_is=run(32, 40.0, price),
            fullest=run(largest, 40.0 * largest / 32, price),
            prices=() if price is None else (listed,),
            power_limit_watts=70,
            basis=f"figures of the {name}",
            unmeasured_share=0.0,
        )

    return DevicesReport(
        schema=DEVICES_SCHEMA,
        created="2026-11-21T14:02:00+00:00",
        script=str(script),
        arguments=(),
        predictor="told",
        batch_size=32,
        span=Span(True, 4096.0, 128.0),
        grid_g_per_kwh=100.0,
        traced_for_each=(),
        answer="Fastest is the H100.",
        devices=(
            device("S1", 1_000_000_000, 0.5, "too large", 12),
            device("L9", 80_000_000_000, None, "fits", 1024),
        ),
        assumptions=("Energy is modelled, not measured.",),
        notes=(),
    )


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_other_gpus_are_shown_in_a_table(
    opened_app: Callable[..., OpenedApp], size: tuple[int, int]
) -> None:
    made = opened_app()
    made.session.devices_page = make_devices(made.session.script)
    async with made.app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("e")
        await pilot.pause()
        assert [asked.uri for asked in made.session.compared] == [made.session.uri]
        assert made.app.query_one(DevicesView).display
        rows = made.text.splitlines()
        small, *_ = [row for row in rows if " S1 " in row and "! no" in row]
        assert "12" in small.split()
        large, *_ = [row for row in rows if " L9 " in row and " yes " in row]
        assert "1024" in large.split()
        await pilot.press("escape")
        assert not made.app.query_one(DevicesView).display


async def test_the_table_sorts_by_any_column(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app()
    made.session.devices_page = make_devices(made.session.script)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("5", "e")
        await pilot.pause()
        table = made.app.query_one("#device-table", SortTable)
        orders: list[list[str]] = []
        for _ in range(5):
            await pilot.press("s")
            orders.append([one.gpu for one in table.order])
        assert ["S1", "L9"] in orders
        assert ["L9", "S1"] in orders
        await pilot.click(table, offset=(3, 1))
        assert [one.gpu for one in table.order] == ["L9", "S1"]
        await pilot.click(table, offset=(3, 1))
        assert [one.gpu for one in table.order] == ["S1", "L9"]


async def test_it_can_be_cancelled(opened_app: Callable[..., OpenedApp]) -> None:
    made = opened_app(endless=True)
    async with made.app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("e")
        await pilot.pause()
        assert "curve: tracing at batch size 64" in made.text
        await pilot.press("e")
        assert "try again when that is done" in made.toasts
        await pilot.press("escape")
        await pilot.pause()
        assert made.session.cancelled.is_set()
        assert made.app.query_one(DevicesView).report is None
        assert len(made.session.compared) == 1
