"""Commands of two versions of Skyline in turns: whether one has become slower than the other.

``--before`` is a checkout of the earlier version, its commit named by ``--commit``. Both run under this interpreter, on
the CPU, the same command on the same script; each round runs them once in changing order. What counts is the processor
time of the command with all processes that it starts: the wall time of a command on a busy machine tells of the others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine
from result_file import RESULTS, table, write

from skyline.spread import median

REPOSITORY = Path(__file__).resolve().parent.parent
_SCRIPT = REPOSITORY / "examples" / "recommender.py"
COMMANDS = {
    "profile": ("profile", "--quiet", "--no-save", "--steps", "20", str(_SCRIPT)),
    "verify": (
        "verify",
        "--quiet",
        "--fresh",
        "--no-ledger",
        "--rounds",
        "6",
        str(_SCRIPT),
        "batch_size=128",
    ),
}
_LONGEST_S = 600.0


class Failed(Exception):
    """A command that did not end well; the message is what it said last."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of processor time, of the command and all its processes, and of the clock on the wall."""

    processor_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A command's costs in each round, of the earlier version and of this one."""

    command: str
    before: tuple[Cost, ...]
    after: tuple[Cost, ...]

    def ratios(self, name: str) -> list[float]:
        """This version's cost over the earlier one's, round by round."""
        pairs = zip(self.before, self.after, strict=True)
        return [getattr(after, name) / getattr(before, name) for before, after in pairs]


def ran(checkout: Path, words: Sequence[str], folder: Path) -> Cost:
    """The cost of one run of a command of the version in ``checkout``. Raises Failed."""
    folders = [checkout, *(checkout / name for name in ("lsp", "tui", "predictors"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"}
    environment["SKYLINE_DATA_DIR"] = str(folder)
    began, before = time.monotonic(), os.times()
    ended = subprocess.run(
        [sys.executable, "-m", "skyline", *words],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=_LONGEST_S,
    )  # fmt: skip
    after = os.times()
    if ended.returncode:
        raise Failed(f"{' '.join(words)}: {(ended.stderr or ended.stdout).strip()[-300:]}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(used, time.monotonic() - began)


def compared(command: str, before: Path, rounds: int) -> Comparison:
    """A command of both versions in so many rounds. Raises Failed."""
    costs: dict[Path, list[Cost]] = {before: [], REPOSITORY: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for checkout in (before, REPOSITORY) if number % 2 == 0 else (REPOSITORY, before):
                costs[checkout].append(ran(checkout, COMMANDS[command], Path(folder)))
                print(
                    f"{command} {number} {checkout.name}: {costs[checkout][-1]}", file=sys.stderr, flush=True
                )
    return Comparison(command, tuple(costs[before]), tuple(costs[REPOSITORY]))


def page(found: Sequence[Comparison], commit: str) -> str:
    """The comparisons as a table."""
    rows = [
        [
            one.command,
            str(len(one.before)),
            _spread([cost.processor_s for cost in one.before]),
            _spread([cost.processor_s for cost in one.after]),
            _spread(one.ratios("processor_s")),
            _spread(one.ratios("wall_s")),
        ]
        for one in found
    ]
    head = [
        "command", "rounds", "before, processor s", "after, processor s", "ratio, processor", "ratio, wall",
    ]  # fmt: skip
    return (
        f"`{_SCRIPT.name}` of the examples on the CPU, one thread; before: {commit}. Medians, with the least "
        f"and the largest of the rounds.\n\n{table(head, rows)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the earlier version")
    parser.add_argument("--commit", required=True, help="commit of the earlier version")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    before = options.before.resolve()
    found: list[Comparison] = []
    for command in options.only:
        found.append(compared(command, before, options.rounds))
    body = page(found, options.commit)
    figures = [asdict(one) for one in found]
    write(
        "command_speed",
        "Commands against an earlier version",
        machine,
        body,
        figures,
        results=options.results,
    )
    return 0


def _spread(values: Sequence[float]) -> str:
    return f"{median(list(values)):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
