"""Measures the time until the terminal UI shows each step of a drag and each toggle of a what-if.

Runs the real program in a pseudo-terminal, on an example that was profiled before. The pointer grabs the throughput
bar and moves. What-ifs are checked and unchecked by key. All input is sent as the bytes of a terminal. The time starts
before these bytes are written. It ends with the last byte of the frame that shows the event: a frame with the handle
at the pointer, or with the answer of the language server in the summary line. The time includes reading the input,
waiting in the program, drawing, and writing the frame. It excludes the time in which a terminal displays the frame.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from terminal import Screen, Terminal

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
START_TIMEOUT_S = 120.0
ANSWER_TIMEOUT_S = 10.0
SIZES = ((80, 24), (120, 40), (160, 50))
GOALS_MS = {"drag": 16.0, "toggle": 50.0}
NOTHING_ASKED = "drag a bar, or check"


@dataclass(frozen=True, slots=True)
class Waits:
    """The times from an event of one kind to its frame."""

    script: str
    terminal: str
    what: str
    waits_ms: tuple[float, ...]

    @property
    def percentiles_ms(self) -> tuple[float, float, float, float]:
        """The median, the 95th and 99th percentile, and the maximum."""
        cuts = statistics.quantiles(self.waits_ms, n=100, method="inclusive")
        return statistics.median(self.waits_ms), cuts[94], cuts[98], max(self.waits_ms)


@dataclass(slots=True)
class Bar:
    """The throughput bar on the screen, and the column of the pointer on it."""

    row: int
    left: int
    right: int
    at: int

    @classmethod
    def on(cls, screen: Screen) -> Bar | None:
        """The bar on a screen, from its name to its right end. None if there is nothing to drag."""
        place = screen.find("Throughput ")
        assert place is not None, screen.text
        line = screen.line(place[1])
        left = min((found for sign in "▕…" if (found := line.find(sign)) >= 0), default=None)
        if left is None:
            return None
        right = line.index("▏", left)
        return cls(place[1], left + 1, right - 1, (left + right) // 2)

    def wander(self, chance: random.Random) -> int:
        """Move to another column, a few cells to the left or to the right, and return it."""
        while True:
            there = self.at + chance.choice((-3, -2, -1, 1, 2, 3))
            if self.left < there < self.right:
                self.at = there
                return there

    def held_at(self, column: int) -> Callable[[Screen], bool]:
        """The condition that the handle is drawn there."""
        return lambda screen: screen.line(self.row)[column] == "┃"


def drag(terminal: Terminal, moves: int, chance: random.Random) -> list[float]:
    """Times of drag steps, each until the handle is at the pointer, while answers to earlier steps arrive."""
    waits: list[float] = []
    with _held(terminal) as bar:
        for _ in range(moves):
            column = bar.wander(chance)
            since = terminal.move(column, bar.row)
            waits.append((terminal.until(bar.held_at(column), ANSWER_TIMEOUT_S) - since) * 1e3)
            # The next event comes after a random time, as with a hand.
            terminal.watch(chance.uniform(0.0, 0.03))
    return waits


def drag_answered(terminal: Terminal, moves: int, chance: random.Random) -> list[float]:
    """Times of drag steps, each until the server's prediction for that batch size is in the summary line."""
    waits: list[float] = []
    with _held(terminal) as bar:
        before = _batch_size(terminal.screen)
        while len(waits) < moves:
            column = bar.wander(chance)
            since = terminal.move(column, bar.row)
            terminal.until(bar.held_at(column), ANSWER_TIMEOUT_S)
            wanted = _batch_size(terminal.screen)
            done = terminal.until(
                _sums_up(f"batch {wanted}: " if wanted else NOTHING_ASKED), ANSWER_TIMEOUT_S
            )
            if wanted != before:
                # Several cells may stand for one batch size. A move between them sends no request.
                waits.append((done - since) * 1e3)
            before = wanted
            terminal.watch(chance.uniform(0.0, 0.03))
    return waits


def toggle(terminal: Terminal, times: int) -> list[float]:
    """Times of checking and unchecking the first what-if, each until the answer is shown."""
    waits: list[float] = []
    for number in range(times):
        since = terminal.send(" ")
        shows = _sums_up(" speed") if number % 2 == 0 else _sums_up(NOTHING_ASKED)
        waits.append((terminal.until(shows, ANSWER_TIMEOUT_S) - since) * 1e3)
        terminal.watch(0.05)
    return waits


@contextlib.contextmanager
def _held(terminal: Terminal) -> Iterator[Bar]:
    """Grab the bar, and put it back at the end."""
    bar = Bar.on(terminal.screen)
    assert bar is not None, terminal.screen.text
    terminal.press(bar.at, bar.row)
    terminal.until(bar.held_at(bar.at), ANSWER_TIMEOUT_S)
    terminal.watch(0.3)
    yield bar
    terminal.release(bar.at, bar.row)
    terminal.watch(0.3)
    terminal.send("\x1b")
    terminal.until(_sums_up(NOTHING_ASKED), ANSWER_TIMEOUT_S)


def _batch_size(screen: Screen) -> str:
    """The requested batch size. Empty if it is the one in the file."""
    asked = re.search(r"Batch size \d+ → (\d+)", screen.text)
    return asked[1] if asked else ""


def _sums_up(words: str) -> Callable[[Screen], bool]:
    """The condition that the summary line has these words. It is the last line but one, or above it if it wraps."""
    return lambda screen: any(words in screen.line(screen.rows - up) for up in (2, 3))


def measure(script: Path, size: tuple[int, int], moves: int) -> list[Waits]:
    """Start the program on a profiled script, stop the run that it starts, and drag and toggle."""
    terminal = Terminal(
        [sys.executable, "-m", "skyline", "tui", "--staged", script.name], script.parent, size
    )
    try:
        terminal.until(
            lambda screen: "per iteration" in screen.text and "[ ]" in screen.text, START_TIMEOUT_S
        )
        # The program starts to measure the script again. Stop it, so that only the saved profile is drawn.
        terminal.until(_sums_up("c cancels"), START_TIMEOUT_S)
        terminal.send("c")
        terminal.until(_sums_up(NOTHING_ASKED), START_TIMEOUT_S)
        terminal.until(lambda screen: "was cancelled" not in screen.text, START_TIMEOUT_S)
        # Wait, because the process that keeps PyTorch ready for the next run is starting too.
        terminal.watch(6.0)
        if Bar.on(terminal.screen) is None:
            print(f"{script.name}: its profile has no bar to drag", file=sys.stderr)
            return []
        chance, name = random.Random(0), "x".join(map(str, size))
        found = [
            Waits(script.name, name, "drag", tuple(drag(terminal, moves, chance))),
            Waits(script.name, name, "drag, its answer", tuple(drag_answered(terminal, moves // 4, chance))),
            Waits(script.name, name, "toggle", tuple(toggle(terminal, max(moves // 3, 10)))),
        ]
    finally:
        terminal.close()
    for row in found:
        print(row.terminal, row.what, [round(value, 1) for value in row.percentiles_ms], file=sys.stderr)
    return found


def profiled(example: Path, folder: Path) -> Path:
    """A copy of the example in its own folder, with a saved profile next to it."""
    script = folder / example.name
    if not list((folder / ".skyline").glob(f"{example.stem}-*.profile.json.gz")):
        shutil.copy(example, script)
        subprocess.run(
            [sys.executable, "-m", "skyline", "profile", script.name],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return script


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="training scripts (default: the examples)")
    parser.add_argument("--moves", type=int, default=300, help="steps of a drag, for each script and size")
    parser.add_argument("--folder", type=Path, help="folder for the profiles, which the next run uses")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    examples = [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        scripts = [profiled(example, folder) for example in examples]
        machine = Machine.here()
        warn_when_busy(machine)
        rows = [row for script in scripts for size in SIZES for row in measure(script, size, options.moves)]
    if not rows:
        return 1
    head = ["script", "terminal", "what", "times", "p50, ms", "p95, ms", "p99, ms", "longest, ms"]
    body = table(
        head,
        [
            [
                row.script,
                row.terminal,
                row.what,
                str(len(row.waits_ms)),
                *(f"{value:.1f}" for value in row.percentiles_ms),
            ]
            for row in rows
        ],
    )
    for what, goal_ms in GOALS_MS.items():
        worst = max(row.percentiles_ms[1] for row in rows if row.what == what)
        body += f"\n\nThe worst p95 of a {what} is {worst:.1f} ms; the goal is {goal_ms:.0f} ms"
        body += ": met." if worst <= goal_ms else ": missed."
    body += (
        "\n\nThe real program runs in a pseudo-terminal. The time starts before the bytes of the event are "
        "written, and ends with the last byte of the frame that shows the event. For a step of a drag, that "
        "frame has the handle under the pointer. For a toggle and for a drag's answer, it has the server's "
        "new prediction."
    )
    title = "Time until a drag and a toggle are on the screen"
    print(write("drag_redraw", title, machine, body, [asdict(row) for row in rows], results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
