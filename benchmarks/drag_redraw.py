"""How soon the terminal UI shows what a hand does: each step of a drag, and each toggle of a what-if.

Drives the real app, without a terminal, on the real language server: an example is profiled, then the pointer takes
hold of the throughput bar and moves, and what-ifs are checked and unchecked by key. Timed from the event's arrival in
the app to the end of writing the frame that shows it: one with the handle where the pointer is, or, for a toggle, with
the answer of the server in the line that sums up. What the app waits for on its own, as the pause between two frames,
is inside. Frames are not written while the pointer rests.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline_tui.frames import set_frame_rate

set_frame_rate(os.environ)

from textual import events  # noqa: E402  after the frame rate, which Textual reads once
from textual.pilot import Pilot  # noqa: E402

from skyline_tui.app import SkylineApp  # noqa: E402
from skyline_tui.client import Server  # noqa: E402
from skyline_tui.session import ServerSession  # noqa: E402
from skyline_tui.widgets.drag_bar import DragBar  # noqa: E402
from skyline_tui.widgets.status import Status  # noqa: E402
from skyline_tui.widgets.whatifs import WhatIfs  # noqa: E402

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROFILE_TIMEOUT_S = 300.0
ANSWER_TIMEOUT_S = 5.0
SIZES = ((80, 24), (120, 40), (160, 50))


class TimedApp(SkylineApp):
    """Notes when each frame is written, and what it shows."""

    CSS_PATH = Path(inspect.getfile(SkylineApp)).parent / "app.tcss"

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.frames: list[tuple[float, float | None, str]] = []

    def _display(self, screen: Any, renderable: Any) -> None:
        super()._display(screen, renderable)
        bars, said = self.query("#throughput-bar"), self.query(Status)
        held = bars.first(DragBar).then if bars else None
        self.frames.append((time.perf_counter(), held, str(said.first().render()) if said else ""))


async def until(holds: Callable[[], bool], what: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"gave up waiting until {what}")
        await asyncio.sleep(0.05)


async def shown(app: TimedApp, since: float, shows: Callable[[float | None, str], bool]) -> float | None:
    """Milliseconds from ``since`` to the first frame that shows it; None where none came in time."""
    seen = 0
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        while seen < len(app.frames):
            when, held, said = app.frames[seen]
            seen += 1
            if when > since and shows(held, said):
                return (when - since) * 1e3
        await asyncio.sleep(0)
    return None


async def drag(app: TimedApp, pilot: Pilot[None], moves: int, chance: random.Random) -> list[float]:
    bar = app.query_one("#throughput-bar", DragBar)
    await pilot.mouse_down(bar, offset=(bar.size.width // 2, 0))
    waits: list[float] = []
    at = bar.size.width // 2
    for _ in range(moves):
        before = bar.then
        while True:
            step = chance.choice((-3, -2, -1, 1, 2, 3))
            there = min(max(at + step, 2), bar.size.width - 3)
            if there != at:
                break
        at = there
        wanted = bar.fraction_at(at)
        x, y = bar.region.x + at, bar.region.y
        app.frames.clear()
        since = time.perf_counter()
        app.screen._forward_event(events.MouseMove(bar, x, y, there - at, 0, 1, False, False, False, x, y))
        waited = await shown(app, since, lambda held, said, wanted=wanted: held == wanted)
        if waited is None:
            raise TimeoutError(f"a drag from {before} to {wanted} was never drawn")
        waits.append(waited)
        # As a hand does: the next event comes whenever it comes, while answers are still arriving.
        await asyncio.sleep(chance.uniform(0.0, 0.03))
    bar.let_go()
    await pilot.press("escape")
    await pilot.pause()
    return waits


async def toggle(app: TimedApp, pilot: Pilot[None], times: int) -> list[float]:
    rows = app.query_one(WhatIfs)
    rows.focus()
    await pilot.pause()
    waits: list[float] = []
    for number in range(times):
        app.frames.clear()
        on = number % 2 == 0
        option = rows.highlighted_option
        name = option.id if option is not None else None
        since = time.perf_counter()
        app.screen._forward_event(events.Key("space", " "))
        waited = await shown(
            app, since, lambda held, said, on=on, name=name: said.startswith(f"{name}: ") == on
        )
        if waited is None:
            raise TimeoutError(f"toggling {name} was never drawn")
        waits.append(waited)
        await asyncio.sleep(0.05)
    return waits


def percentiles(waits: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {"p50": statistics.median(waits), "p95": cuts[94], "p99": cuts[98], "max": max(waits)}


async def measure(example: Path, moves: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder).resolve() / example.name
        shutil.copy(example, script)
        for size in SIZES:
            settings: dict[str, object] = {"profile": {"onSave": "never"}}
            app = TimedApp(
                script, lambda post, given=settings: ServerSession(script, Server(post, given)), live=False
            )
            async with app.run_test(size=size) as pilot:
                await until(
                    lambda app=app: app.profile is not None and len(app.profile.curve) > 1,
                    "the script is measured",
                    PROFILE_TIMEOUT_S,
                )
                if size == SIZES[0]:
                    await until(
                        lambda app=app: not app.query_one(Status).busy, "the run is over", PROFILE_TIMEOUT_S
                    )
                else:
                    # What the first run saved is there: only it is drawn, nothing is measured beside it.
                    await pilot.press("c")
                    await until(
                        lambda app=app: not app.query_one(Status).busy,
                        "the run is cancelled",
                        PROFILE_TIMEOUT_S,
                    )
                await pilot.pause(1.0)
                chance = random.Random(0)
                for what, waits in (
                    ("drag", await drag(app, pilot, moves, chance)),
                    ("toggle", await toggle(app, pilot, max(moves // 3, 10))),
                ):
                    row = {"script": example.name, "size": "x".join(map(str, size)), "what": what}
                    found.append({**row, "waits_ms": waits, **percentiles(waits)})
                    print(
                        row,
                        {key: round(value, 1) for key, value in percentiles(waits).items()},
                        file=sys.stderr,
                    )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument("--moves", type=int, default=300, help="steps of a drag, for each script and size")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[dict[str, Any]] = []
    for example in [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py")):
        rows += asyncio.run(measure(example, options.moves))
    head = ["script", "terminal", "what", "times", "p50, ms", "p95, ms", "p99, ms", "longest, ms"]
    body = table(
        head,
        [
            [
                row["script"],
                row["size"],
                row["what"],
                str(len(row["waits_ms"])),
                *(f"{row[key]:.1f}" for key in ("p50", "p95", "p99", "max")),
            ]
            for row in rows
        ],
    )
    body += (
        "\n\nFrom the event's arrival in the app to the end of writing the frame that shows it. A toggle's frame holds "
        "the server's answer to the new question. The goals are 16 ms for a drag and 50 ms for a toggle, at p95."
    )
    title = "How soon a drag and a toggle are on the screen"
    print(write("drag_redraw", title, machine, body, rows, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
