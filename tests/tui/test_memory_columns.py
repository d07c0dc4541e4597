"""The memory curve without textual-plot, cell by cell."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.app import App, ComposeResult

from skyline.memory.timeline import MemoryPoint
from skyline_tui.widgets.memory_columns import MemoryColumns


def point(time_ms: float, parameters: int, activations: int) -> MemoryPoint:
    return MemoryPoint(time_ms, parameters + activations, parameters, 0, 0, activations, 0)


class Desk(App[None]):
    def compose(self) -> ComposeResult:
        yield MemoryColumns()


@pytest.fixture
def rows() -> Callable[[Desk], list[str]]:
    return lambda app: app.query_one(MemoryColumns).render().plain.splitlines()


async def test_levels_hold_until_the_next_point_and_the_cursor_is_at_the_peak(
    rows: Callable[[Desk], list[str]],
) -> None:
    app = Desk()
    async with app.run_test(size=(30, 9)) as pilot:
        plot = app.query_one(MemoryColumns)
        plot.show((point(0.0, 4_000_000, 0), point(5.0, 4_000_000, 4_000_000), point(10.0, 4_000_000, 0)))
        await pilot.pause()
        drawn = rows(app)
        assert drawn[0].startswith("   8.0 MB│")
        assert drawn[-1].strip().startswith("0 ms")
        assert drawn[-1].endswith("10.0 ms")
        top, bottom = drawn[0].partition("│")[2], drawn[-2].partition("│")[2]
        assert "█" not in top[:9]
        assert top[10:19] == "█" * 9
        assert set(bottom) == {"█"}
        assert plot.time_ms == 5.0
        await pilot.press("end")
        assert plot.time_ms == 10.0
        await pilot.press("x", "left")
        assert plot.time_ms == pytest.approx(4.9)
        await pilot.click(MemoryColumns, offset=(10, 2))
        assert plot.time_ms < 1.0


async def test_nothing_recorded_draws_nothing(rows: Callable[[Desk], list[str]]) -> None:
    app = Desk()
    async with app.run_test(size=(30, 9)):
        assert rows(app) == []
