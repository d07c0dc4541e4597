"""Draws the pictures of the documentation: an example is measured, and what the front ends show of it is kept."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

from rich.console import Console
from terminal_picture import THEME, without_web_fonts
from textual.pilot import Pilot
from textual.widgets import Input, Select

from skyline.analysis.analyse import analyse
from skyline.report.build import profile_report, whatif_report
from skyline.report.pages.profile import profile_page
from skyline.report.terminal import print_document
from skyline.trace import store
from skyline_tui.app import SkylineApp
from skyline_tui.client import Server
from skyline_tui.screens.limits import TuneLimits
from skyline_tui.session import ServerSession
from skyline_tui.views.plan import PlanView
from skyline_tui.views.tune import TuneView
from skyline_tui.widgets.controls import Controls
from skyline_tui.widgets.lanes import Lanes
from skyline_tui.widgets.status import Status

REPOSITORY = Path(__file__).resolve().parent.parent
IMAGES = Path(__file__).resolve().parent / "images"
WAIT_S = 300.0


PAGES = {"tui-lines": "2", "tui-timeline": "3", "tui-memory": "4", "tui-diff": "6", "tui-findings": "7"}
"""The other pages of the terminal UI, and the keys that go there."""


WALK = (
    ("walk-1-start", ()),
    ("walk-2-costliest", ("2",)),
    ("walk-3-try", ("1", "w", "space", "down", "space", "down", "space")),
    ("walk-4-apply", ("space", "up", "space", "a")),
    ("walk-5-undo", ("u",)),
)
"""A first look, picture by picture: the keys that lead to it. The last keys but one leave one what-if, and apply it."""


async def terminal_ui(script: Path, size: tuple[int, int], *, measured: bool) -> dict[str, str]:
    """The pages as SVG by name, with twice the batch and the best what-if asked for; first the walk.

    Measures the script, unless it was ``measured``: then what was saved is shown.
    """
    app = SkylineApp(script, lambda post: ServerSession(script, Server(post, {})), live=False)
    pictures: dict[str, str] = {}
    before = script.read_bytes()
    async with app.run_test(size=size) as pilot:
        await _until(pilot, "the script is measured", lambda: _curve_is_known(app))
        if measured:
            await _cancel(pilot, app)
        await _until(pilot, "the run is over", lambda: not app.query_one(Status).busy)
        await pilot.pause(6.0)
        for name, keys in WALK:
            await pilot.press(*keys)
            await pilot.pause(2.0)
            pictures[name] = _picture(app)
        await _until(pilot, "the code is as before", lambda: script.read_bytes() == before)
        await pilot.pause(6.0)
        await _until(pilot, "the code is measured again", lambda: not app.query_one(Status).busy)
        await pilot.pause(6.0)
        await pilot.press("w", "home", "space")
        assert app.profile is not None
        assert app.profile.batch_size.value is not None
        app.query_one(Controls).choose(2 * app.profile.batch_size.value)
        await pilot.pause(1.5)
        pictures["tui"] = _picture(app)
        for name, keys in PAGES.items():
            await pilot.press(*keys)
            await pilot.pause(1.5)
            pictures[name] = _picture(app)
        pictures.update(await plans(pilot, app))
        pictures.update(await real_runs(pilot, app))
    return pictures


def watch(script: Path) -> None:
    """Train under ``skyline watch``, so that there is a run to show."""
    command = [sys.executable, "-m", "skyline", "watch", script.name, "--epochs", "6"]
    subprocess.run(command, cwd=script.parent, check=True, capture_output=True)


async def real_runs(pilot: Pilot[None], app: SkylineApp) -> dict[str, str]:
    """The pages of the watched run and of a search by trials of one minute, as SVG."""
    await pilot.press("W")
    await pilot.pause(2.0)
    pictures = {"tui-watch": _picture(app)}
    await pilot.press("T", "t")
    await _until(pilot, "the limits are asked for", lambda: isinstance(app.screen, TuneLimits))
    app.screen.query_one(Input).value = "1"
    await pilot.press("enter")
    view = app.query_one(TuneView)
    await _until(pilot, "the search began", lambda: view.searching)
    await _until(pilot, "the search is over", lambda: not view.searching)
    await pilot.pause(2.0)
    return {**pictures, "tui-tune": _picture(app)}


async def plans(pilot: Pilot[None], app: SkylineApp) -> dict[str, str]:
    """The page of plans as SVG: a described model on a cluster, and the timeline of its best strategy."""
    view = app.query_one(PlanView)
    await pilot.press("9")
    cluster = app.query_one("#plan-cluster", Select)
    await _until(pilot, "the clusters are offered", lambda: len(cluster._options) > 1)
    app.query_one("#plan-amount", Input).value = "15B"
    app.query_one("#plan-gpus", Input).value = "8..32"
    app.query_one("#plan-model", Select).value = "llama3-8b"
    await pilot.pause(0.5)
    cluster.value = "p5.48xlarge"
    await _until(pilot, "the plan is made", lambda: view.row is not None)
    await pilot.press("down", "down")
    await pilot.pause(1.0)
    pictures = {"tui-plan": _picture(app)}
    await pilot.press("enter")
    await _until(pilot, "the row is open", lambda: view.query_one(Lanes).report is not None)
    await pilot.pause(1.0)
    return {**pictures, "tui-plan-timeline": _picture(app)}


async def _cancel(pilot: Pilot[None], app: SkylineApp) -> None:
    """Stop a measurement that is on its way or about to be."""
    for _ in range(10):
        await pilot.pause(0.5)
        if app.query_one(Status).busy:
            await pilot.press("c")


def _picture(app: SkylineApp) -> str:
    return without_web_fonts(app.export_screenshot(title="skyline tui"))


def command_line(script: Path, width: int) -> str:
    """The output of ``skyline profile`` for the newest profile of the script, as SVG."""
    saved = store.latest(script)
    assert saved is not None
    analysis = analyse(store.load(saved))
    console = Console(record=True, width=width, file=StringIO(), force_terminal=True, highlight=False)
    print_document(
        profile_page(profile_report(analysis), whatif_report(analysis, None), base=script.parent), console
    )
    return without_web_fonts(console.export_svg(title=f"skyline profile {script.name}", theme=THEME))


def _curve_is_known(app: SkylineApp) -> bool:
    return app.profile is not None and len(app.profile.curve) > 1


async def _until(pilot: Pilot[None], what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting until {what}")
        await pilot.pause(0.2)


def main() -> int:
    """Measure one example and write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--example", default="image_classifier.py", help="which example to show")
    parser.add_argument("--folder", type=Path, help="where a copy of the example was measured before")
    parser.add_argument("--images", type=Path, default=IMAGES, help="folder for the pictures")
    options = parser.parse_args()
    options.images.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        script = (options.folder or Path(folder)).resolve() / options.example
        shutil.copy(REPOSITORY / "examples" / options.example, script)
        measured = options.folder is not None and store.latest(script) is not None
        watch(script)
        pictures = asyncio.run(terminal_ui(script, (124, 40), measured=measured))
        for name, picture in pictures.items():
            # The folder is one of this run alone.
            text = picture.replace(f"{script.parent}/", "")
            (options.images / f"{name}.svg").write_text(text, encoding="utf-8")
        (options.images / "profile.svg").write_text(command_line(script, 100), encoding="utf-8")
    print(f"wrote {', '.join(pictures)} and profile to {options.images}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
