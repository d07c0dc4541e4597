"""The time of the first iterations of a turn, for a training of short iterations that takes turns with others.

The training of a perceptron takes turns with the same training in another process, and with itself on one thread. Its
iterations are grouped by the time since their turn began, and compared with the second half of each turn.
``WARMS_AGAIN_MS`` in ``skyline/capture/held_run.py`` is based on the result.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.capture.bare import run_bare
from skyline.capture.child_process import ChildProcess
from skyline.capture.held_run import HeldRun, TurnPace
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher

_SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
optimizer = torch.optim.Adam(model.parameters())
while True:
    loss = (model(torch.randn({rows}, 3)) - torch.randn({rows}, 2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_BOUNDS_MS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_TURN_MS = 80.0
_MOST = 300


@dataclass(frozen=True, slots=True)
class Row:
    """The iteration time over a settled one, by time since the turn began, from one of the bounds to the next."""

    rows: int
    turns: str
    settled_ms: float
    ratios: list[float | None]


def row_of(rows: int, turns: str, steps_ms: list[list[float]]) -> Row:
    """The row from the iterations of all turns, by the time since each turn began."""
    settled = statistics.median(step for turn in steps_ms for step in turn[len(turn) // 2 :])
    within: list[list[float]] = [[] for _ in _BOUNDS_MS]
    for turn in steps_ms:
        since = 0.0
        for step in turn:
            place = max(number for number, bound in enumerate(_BOUNDS_MS) if bound <= since)
            within[place].append(step)
            since += step
    ratios = [statistics.median(one) / settled if len(one) >= len(steps_ms) // 2 else None for one in within]
    return Row(rows, turns, settled, ratios)


def _steps(held: HeldRun, threads: int | None = None) -> list[float]:
    def work(child: ChildProcess) -> list[float]:
        if threads is not None:
            child.send("set", threads=threads, number_format="")
        count = max(8, min(_MOST, round(_TURN_MS / max(0.05, held.typical_ms))))
        return [row.step_ms for row in run_bare(child, count)]

    return held.compute(work)


def measured(rows: int, rounds: int) -> list[Row]:
    """Rows of turns with another process, of turns with itself on one thread, and of the former on one thread."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        script = folder / "train.py"
        script.write_text(_SCRIPT.format(rows=rows), encoding="utf-8")
        pace = TurnPace(turn_s=0.05, stopped=False)
        runs = [stack.enter_context(HeldRun(ScriptLauncher(CaptureRequest(script)), pace)) for _ in range(2)]
        for run in runs:
            run.warm_up()
            run.turn()
        first, other = runs
        threads = first.ready.facts.environment.intraop_threads

        def turns(*kinds: Callable[[], list[float]]) -> list[list[list[float]]]:
            found = [[kind() for kind in kinds] for _ in range(rounds)]
            return [list(one) for one in zip(*found, strict=True)]

        apart, _ = turns(lambda: _steps(first), lambda: _steps(other))
        alike, alone = turns(lambda: _steps(first, threads), lambda: _steps(first, 1))
        return [
            row_of(rows, "after another process", apart),
            row_of(rows, "after itself on one thread", alike),
            row_of(rows, "on one thread, after itself on all", alone),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="*", default=[64, 256, 1024])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    found = [row for rows in options.rows for row in measured(rows, options.rounds)]
    head = ["rows of a batch", "turns", "settled iteration"]
    head += [f"from {bound:g} ms" for bound in _BOUNDS_MS]
    lines = [
        [
            str(row.rows),
            row.turns,
            f"{row.settled_ms:.2f} ms",
            *("" if one is None else f"{one:.2f}" for one in row.ratios),
        ]
        for row in found
    ]
    text = (
        f"{table(head, lines)}\n\nMedian iteration by the time since its turn began, relative to the median "
        f"of the second half of the turns. {options.rounds} turns of about {_TURN_MS:g} ms each."
    )
    print(
        write(
            "turn_starts",
            "Begin of turns",
            machine,
            text,
            [asdict(row) for row in found],
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
