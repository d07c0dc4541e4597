"""Measures the time that a drag waits for its answer.

Starts the real language server over stdio, profiles each script through it, and sends ``skyline/simulate``
with one batch size after the other and one what-if switched on, as a drag does. The time is measured in the
client, so it includes encoding, both pipes, the simulation and decoding. The requests are sent twice: to an idle
server, and while it profiles another script.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from textual.message import Message

from skyline.errors import SkylineError
from skyline.report.protocol import (
    COMMAND_CANCEL,
    COMMAND_PROFILE,
    PROFILE,
    SIMULATE,
    WHATIFS,
    QuestionParams,
    UriParams,
)
from skyline.report.schema import EstimateReport, ProfileReport, WhatIfReport
from skyline_tui.client import Server
from skyline_tui.messages import ProfileMoved, ProgressEnded

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROFILE_TIMEOUT_S = 300.0
SECONDS_BETWEEN = 0.03
"""Time between two requests: a drag sends at most one per frame of the screen."""


@dataclass(slots=True)
class Conversation:
    """A server and the messages that it sent without a request."""

    directory: Path
    said: asyncio.Queue[ProfileMoved | ProgressEnded] = field(default_factory=asyncio.Queue)
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.server = Server(self._note, {"profile": {"onSave": "never"}})

    def _note(self, message: Message) -> None:
        if isinstance(message, ProfileMoved | ProgressEnded):
            self.said.put_nowait(message)

    async def profile(self, script: Path) -> ProfileReport:
        """Have the script profiled and wait for the result. Raises SkylineError with the server's reason."""
        while not self.said.empty():
            self.said.get_nowait()
        await self.server.execute(COMMAND_PROFILE, script.as_uri())
        deadline = time.monotonic() + PROFILE_TIMEOUT_S
        ended = False
        while True:
            message = await asyncio.wait_for(self.said.get(), deadline - time.monotonic())
            if isinstance(message, ProgressEnded):
                ended = True
            elif message.change.uri == script.as_uri() and ended:
                # Before the run ends, the server also reports a saved profile and a profile without its curve.
                if message.change.error:
                    raise SkylineError(message.change.error)
                report = await self.server.request(PROFILE, UriParams(script.as_uri()), ProfileReport | None)
                assert report is not None
                return report

    async def cancel(self, script: Path) -> None:
        """Stop the run of a script and wait for its end."""
        await self.server.execute(COMMAND_CANCEL, script.as_uri())
        while not isinstance(await asyncio.wait_for(self.said.get(), PROFILE_TIMEOUT_S), ProgressEnded):
            pass

    async def drag(self, script: Path, batch_size: int, whatif: str | None, requests: int) -> list[float]:
        """Milliseconds from each question to its decoded answer."""
        chance = random.Random(0)
        waits: list[float] = []
        for number in range(requests):
            asked = QuestionParams(
                script.as_uri(),
                batchSize=chance.randint(1, 4 * batch_size),
                whatifs=(whatif,) if whatif and number % 2 else (),
            )
            before = time.perf_counter()
            await self.server.request(SIMULATE, asked, EstimateReport)
            waits.append((time.perf_counter() - before) * 1e3)
            await asyncio.sleep(max(0.0, SECONDS_BETWEEN - waits[-1] / 1e3))
        return waits


def percentiles(waits: list[float]) -> dict[str, float]:
    """The median wait and the long ones, in ms."""
    cuts = statistics.quantiles(waits, n=100, method="inclusive")
    return {"p50": statistics.median(waits), "p95": cuts[94], "p99": cuts[98], "max": max(waits)}


async def measure(scripts: list[Path], requests: int) -> tuple[list[list[str]], list[dict[str, object]]]:
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        conversation = Conversation(Path(folder))
        await conversation.server.start(Path(folder))
        try:
            for script in scripts:
                print(f"profiling {script.name}", file=sys.stderr)
                report = await conversation.profile(script)
                batch_size = report.batch_size.value
                if batch_size is None:
                    raise SkylineError(f"{script.name}: no batch size to drag: {report.batch_size.reason}")
                uri = UriParams(script.as_uri())
                whatifs = await conversation.server.request(WHATIFS, uri, WhatIfReport | None)
                names = [one.name for one in whatifs.estimates if one.applicable] if whatifs else []
                whatif = next((name for name in names if name != "batch_size"), None)
                other = next((one for one in scripts if one != script), script)
                for while_profiling in (False, True):
                    if while_profiling:
                        await conversation.server.execute(COMMAND_PROFILE, other.as_uri())
                    waits = await conversation.drag(script, batch_size, whatif, requests)
                    if while_profiling:
                        await conversation.cancel(other)
                    found = percentiles(waits)
                    state = f"while {other.name} is profiled" if while_profiling else "idle"
                    print(f"{script.name}, {state}: {found}", file=sys.stderr)
                    rows.append(
                        [script.name, state, whatif or "none", *(f"{value:.1f}" for value in found.values())]
                    )
                    figures.append(
                        {"script": script.name, "server": state, "whatif": whatif, "waits_ms": waits, **found}
                    )
        finally:
            await conversation.server.stop()
    return rows, figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument("--requests", type=int, default=300, help="questions per script and state")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    scripts = [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py"))

    machine = Machine.here()
    warn_when_busy(machine)
    rows, figures = asyncio.run(measure(scripts, options.requests))
    head = [
        "script",
        "server",
        "what-if on every second question",
        "p50, ms",
        "p95, ms",
        "p99, ms",
        "longest, ms",
    ]
    body = (
        f"{table(head, rows)}\n\nEach row has {options.requests} questions, one at a time, at most one every "
        f"{SECONDS_BETWEEN * 1e3:.0f} ms. The client measures from the question to the decoded answer."
    )
    print(
        write(
            "drag_latency",
            "Waits of a drag for its answer",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
