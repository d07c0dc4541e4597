"""The screen as a picture, at three sizes: kept for one version of Textual, since pictures differ between versions."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest
from textual.pilot import Pilot

if TYPE_CHECKING:
    from conftest import OpenedApp

    from skyline.watch.watch_report import WatchReport

DRAWN_WITH = "8.2.8"

pytestmark = pytest.mark.skipif(
    version("textual") != DRAWN_WITH, reason=f"the pictures were drawn with Textual {DRAWN_WITH}"
)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither today's date nor a blinking cursor is in the picture."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")


@pytest.mark.parametrize(
    ("size", "keys"),
    [
        ((80, 24), ("",)),
        ((120, 40), ("3",)),
        ((160, 50), ("2",)),
        ((120, 40), ("9", "enter,down,enter", "down")),
        ((80, 24), ("9", "enter,down,enter", "enter")),
    ],
    ids=["overview-80x24", "timeline-120x40", "lines-160x50", "plan-120x40", "plan-timeline-80x24"],
)
def test_picture(
    opened_app: Callable[..., OpenedApp],
    snap_compare: Any,
    still: None,
    size: tuple[int, int],
    keys: tuple[str, ...],
) -> None:
    made = opened_app()

    async def look(pilot: Pilot[None]) -> None:
        await pilot.pause()
        for few in keys:
            await pilot.press(*few.split(",") if few else ())
            await pilot.pause(0.3)

    assert snap_compare(made.app, terminal_size=size, run_before=look)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
def test_a_watched_run(
    opened_app: Callable[..., OpenedApp],
    watched_run: WatchReport,
    snap_compare: Any,
    still: None,
    size: tuple[int, int],
) -> None:
    made = opened_app(watched_run=watched_run)

    async def look(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press("W")
        await pilot.pause(0.3)

    assert snap_compare(made.app, terminal_size=size, run_before=look)


@pytest.mark.parametrize("ended", [False, True], ids=["under-way", "ended"])
def test_a_search_by_trials(
    opened_app: Callable[..., OpenedApp], snap_compare: Any, still: None, ended: bool
) -> None:
    made = opened_app()

    async def look(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press("T", "t")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause(0.3)
        if ended:
            made.session.search_on.set()
            await pilot.pause(0.3)

    assert snap_compare(made.app, terminal_size=(120, 40), run_before=look)
