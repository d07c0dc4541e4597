"""Measures the time from a save to the first numbers.

Starts the real language server twice, with and without its warm start, and has each example profiled. Then it saves a
changed version of the example again and again, in turns for both servers. The client measures the time from just before
the file is written to the message with the first iteration time. The script reports its own time until its first timed
iteration. That time is subtracted, because no tool can avoid it. Each run is cancelled after its headline.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
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
from skyline.report.protocol import COMMAND_CANCEL, COMMAND_PROFILE
from skyline_tui.client import Server
from skyline_tui.messages import FirstFigures, ProfileMoved, ProgressEnded

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
LONGEST_S = 180.0
TIMED_AT_FIRST = 4
"""Iterations before the first headline, if all required iterations would take a while. One is dropped."""


@dataclass(frozen=True, slots=True)
class Save:
    """One save: the time to the headline, the script's own part of it, and the time of one iteration, in s."""

    headline_s: float
    script_s: float
    iteration_s: float

    @property
    def wait_s(self) -> float:
        """Time until the timed iterations, without the script's own time."""
        return self.headline_s - self.script_s

    @property
    def overhead_s(self) -> float:
        """Time to the headline, without the script's own time and without the timed iterations."""
        return max(0.0, self.wait_s - TIMED_AT_FIRST * self.iteration_s)


@dataclass(slots=True)
class Conversation:
    """A server with one script that is saved again and again."""

    script: Path
    warm: bool
    saves: list[Save] = field(default_factory=list[Save])
    said: asyncio.Queue[FirstFigures | ProfileMoved | ProgressEnded] = field(default_factory=asyncio.Queue)
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.server = Server(self._note, {"warmStart": self.warm})

    def _note(self, message: Message) -> None:
        if isinstance(message, FirstFigures | ProfileMoved | ProgressEnded):
            self.said.put_nowait(message)

    async def begin(self) -> Save:
        """Make the first profile, for which torch must always be imported."""
        await self.server.start(self.script.parent)
        begin = time.perf_counter()
        await self.server.execute(COMMAND_PROFILE, self.script.as_uri())
        return await self._headline(begin)

    async def save(self, number: int) -> None:
        """Change the script like an editor, by moving a new file into place, and wait for the headline."""
        text = self.script.read_text(encoding="utf-8")
        head, _, _ = text.partition("\nsaved_so_often = ")
        new = self.script.with_name(self.script.name + ".new")
        new.write_text(f"{head}\nsaved_so_often = {number}\n", encoding="utf-8")
        begin = time.perf_counter()
        new.replace(self.script)
        self.saves.append(await self._headline(begin))

    async def _headline(self, begin: float) -> Save:
        while True:
            message = await asyncio.wait_for(self.said.get(), LONGEST_S)
            if isinstance(message, ProfileMoved) and message.change.error:
                raise SkylineError(message.change.error)
            if isinstance(message, FirstFigures) and message.measuring.iterationMs is not None:
                headline_s = time.perf_counter() - begin
                break
        await self.server.execute(COMMAND_CANCEL, self.script.as_uri())
        while not isinstance(await asyncio.wait_for(self.said.get(), LONGEST_S), ProgressEnded):
            pass
        measuring = message.measuring
        assert measuring.iterationMs is not None
        return Save(headline_s, measuring.scriptSeconds or 0.0, measuring.iterationMs.value / 1e3)


async def measure(script: Path, saves: int) -> tuple[Conversation, Conversation, Save]:
    """All saves of one script: with warm start, without, and the very first profile with it."""
    with tempfile.TemporaryDirectory() as folder:
        both: list[Conversation] = []
        for name in ("warm", "cold"):
            copy = Path(folder).resolve() / name / script.name
            copy.parent.mkdir()
            shutil.copy(script, copy)
            both.append(Conversation(copy, warm=name == "warm"))
        try:
            first, _ = [await one.begin() for one in both]
            for number in range(saves):
                for one in both if number % 2 else both[::-1]:
                    await one.save(number)
                warm, cold = both[0].saves[-1], both[1].saves[-1]
                print(
                    f"{script.name} {number}: {warm.wait_s:.2f} s, cold {cold.wait_s:.2f} s", file=sys.stderr
                )
        finally:
            for one in both:
                await one.server.stop()
    return both[0], both[1], first


def spread(values: list[float]) -> str:
    """``0.52 (0.49 to 0.61)``: the median, and the range of nine tenths."""
    if len(values) < 3:
        return f"{statistics.median(values):.2f}"
    cuts = statistics.quantiles(values, n=20, method="inclusive")
    return f"{statistics.median(values):.2f} ({cuts[0]:.2f} to {cuts[-1]:.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument(
        "--saves", type=int, default=20, help="saves of each script, for each of the two servers"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    scripts = [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py"))

    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    for script in scripts:
        warm, cold, first = asyncio.run(measure(script, options.saves))
        rows.append(
            [
                script.name,
                spread([save.wait_s for save in warm.saves]),
                spread([save.overhead_s for save in warm.saves]),
                spread([save.wait_s for save in cold.saves]),
                f"{first.wait_s:.2f}",
                spread([save.script_s for save in warm.saves]),
                f"{statistics.median(save.iteration_s for save in warm.saves) * 1e3:.0f}",
            ]
        )
        for one in (warm, cold):
            figures += [
                {
                    "script": script.name,
                    "warm_start": one.warm,
                    "headline_s": save.headline_s,
                    "script_s": save.script_s,
                    "iteration_s": save.iteration_s,
                }
                for save in one.saves
            ]
    head = [
        "script",
        "wait, s",
        "without the timed iterations, s",
        "wait without warm start, s",
        "wait for the first profile, s",
        "script's own time before, s",
        "iteration, ms",
    ]
    body = (
        f"{table(head, rows)}\n\nMedian of {options.saves} saves, with the range of the middle nine tenths "
        "in brackets. The wait is the time from just before the file is written to the first iteration time "
        "in the client, minus the script's own time until its first timed iteration. It includes 0.3 s, in "
        f"which the server waits for further saves, and the timed iterations: {TIMED_AT_FIRST} if they are "
        "slow."
    )
    print(
        write(
            "save_to_numbers",
            "Time from a save to the first numbers",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
