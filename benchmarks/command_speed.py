"""Runs commands of two versions of Skyline in turns, to see if one is slower than the other.

``--before`` is a checkout of the earlier version, and ``--commit`` names its commit. Both versions run the same command
on the same script, under this interpreter and on the CPU. Each round runs both once in changing order. The measure is
the processor time of the command and all its processes, because on a busy machine the wall time also counts other
programs. Linux only: this process adopts the command's orphans, so that their time is counted too. A round in which a
command fails is discarded and counted.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
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

from skyline.interval import median

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


_BECOME_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


class Failed(Exception):
    """A command that ended with an error; the message is its last output."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command and all its processes: processor time and wall time, in s."""

    processor_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """The costs of a command in each round, for the earlier version and for this one."""

    command: str
    before: tuple[Cost, ...]
    after: tuple[Cost, ...]
    discarded: int

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
    wall_s = time.monotonic() - began
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = os.times()
    if ended.returncode:
        raise Failed(f"{checkout.name}: {' '.join(words)}: {(ended.stderr or ended.stdout).strip()[-300:]}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(used, wall_s)


def compared(command: str, before: Path, rounds: int) -> Comparison:
    """A command of both versions in ``rounds`` rounds. A round with a failure is discarded."""
    pairs: list[dict[Path, Cost]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            pair: dict[Path, Cost] = {}
            order = (before, REPOSITORY) if number % 2 == 0 else (REPOSITORY, before)
            try:
                for checkout in order:
                    pair[checkout] = ran(checkout, COMMANDS[command], Path(folder))
                    print(
                        f"{command} {number} {checkout.name}: {pair[checkout]}", file=sys.stderr, flush=True
                    )
                pairs.append(pair)
            except Failed as failure:
                print(f"round {number} discarded: {failure}", file=sys.stderr, flush=True)
    return Comparison(
        command,
        tuple(pair[before] for pair in pairs),
        tuple(pair[REPOSITORY] for pair in pairs),
        rounds - len(pairs),
    )


def page(found: Sequence[Comparison], commit: str) -> str:
    """The comparisons as a table."""
    rows = [
        [
            one.command,
            str(len(one.before)),
            str(one.discarded),
            _spread([cost.processor_s for cost in one.before]),
            _spread([cost.processor_s for cost in one.after]),
            _spread(one.ratios("processor_s")),
            _spread(one.ratios("wall_s")),
        ]
        for one in found
    ]
    head = [
        "command", "rounds", "discarded",
        "before, processor s", "after, processor s", "ratio, processor", "ratio, wall",
    ]  # fmt: skip
    return (
        f"`{_SCRIPT.name}` of the examples on the CPU, one thread; before: {commit}. Medians of the rounds, "
        f"with the minimum and the maximum.\n\n{table(head, rows)}"
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
    ctypes.CDLL(None).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0)
    before = options.before.resolve()
    found = [compared(command, before, options.rounds) for command in options.only]
    body = page(found, options.commit)
    figures = [asdict(one) for one in found]
    write(
        "command_speed",
        "Commands compared with an earlier version",
        machine,
        body,
        figures,
        results=options.results,
    )
    return 0


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "none"
    return f"{median(list(values)):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
