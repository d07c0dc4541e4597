"""The cost of ``skyline watch``: processor time of a training with and without its hooks, block by block.

One training runs under ``skyline watch`` and removes or restores the hooks every 0.1 s. A block with hooks is compared
with the mean of its two neighbours without hooks. The null compares a block without hooks with the nearest two of its
kind. Blocks close to each other in one process share their memory addresses and the state of the machine. The processor
time of the watcher is given relative to the training.

Half of the time is without hooks, so the budget for statistics is halved: blocks with hooks then spend the usual share.
``--overhead`` sets another budget.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from machine import Machine, warn_when_busy
from ratio import Ratio
from result_file import RESULTS, table, write
from watch_cost_training import MODELS

TRAINING = Path(__file__).with_name("watch_cost_training.py")
_USUAL_SHARE = 0.002
_LIMIT = 1.01
_NULL = 0.01


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time per iteration of each block in ms (every second one with hooks), and of whole processes in s.

    ``watching_s`` is the processor time of the hooks, as recorded by themselves.
    """

    name: str
    blocks_ms: tuple[float, ...]
    length: int
    training_s: float
    watcher_s: float
    watching_s: float

    @property
    def plain_ms(self) -> float:
        return statistics.median(self.blocks_ms[::2])

    @property
    def ratio(self) -> Ratio:
        """Blocks with hooks over the mean of both neighbours without hooks."""
        blocks = self.blocks_ms
        return Ratio.of(
            [
                blocks[at] / statistics.mean((blocks[at - 1], blocks[at + 1]))
                for at in range(1, len(blocks) - 1, 2)
            ]
        )

    @property
    def null(self) -> Ratio:
        """Blocks without hooks over the mean of the two nearest ones without hooks."""
        plain = self.blocks_ms[::2]
        return Ratio.of(
            [
                plain[at] / statistics.mean((plain[at - 1], plain[at + 1]))
                for at in range(1, len(plain) - 1, 2)
            ]
        )

    @property
    def verdict(self) -> str:
        """The verdict, below or above a cost of 1 %. It needs a null without an effect."""
        if max(abs(self.null.low - 1), abs(self.null.high - 1)) > _NULL:
            return "inconclusive"
        return (
            "below" if self.ratio.high < _LIMIT else "above" if self.ratio.low >= _LIMIT else "inconclusive"
        )


def measured(name: str, seconds: float, share: float, folder: Path) -> Cost:
    result = folder / "result.json"
    watch = [sys.executable, "-m", "skyline", "watch", "--quiet", "--history", str(folder / "history.jsonl")]
    watch += ["--interpreter", sys.executable, "--overhead", str(share / 2)]
    command = [*watch, str(TRAINING), name, str(seconds), str(result)]
    pid = os.posix_spawn(sys.executable, command, {**os.environ})
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{name}: the training ended with status {status}")
    content = json.loads(result.read_text(encoding="utf-8"))
    history = [
        json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    watching_s = [entry["watching_s"] for entry in history if entry.get("kind") == "course"][-1]
    # The usage of the watcher includes the training, for which it waited.
    watcher_s = usage.ru_utime + usage.ru_stime - content["process_s"]
    return Cost(
        name, tuple(content["blocks_ms"]), content["length"], content["process_s"], watcher_s, watching_s
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of: {', '.join(MODELS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor time of each training")
    parser.add_argument("--overhead", type=float, default=_USUAL_SHARE, help="share for statistics")
    parser.add_argument("--name", default="watch_cost", help="name of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    machine = Machine.here()
    warn_when_busy(machine)
    costs: list[Cost] = []
    for name in options.models:
        with tempfile.TemporaryDirectory() as folder:
            costs.append(measured(name, options.seconds, options.overhead, Path(folder)))
        print(f"{name}: {costs[-1].ratio}, null {costs[-1].null}", file=sys.stderr)
    print(
        write(
            options.name,
            "The cost of watching",
            machine,
            page(costs, options.overhead),
            [asdict(cost) for cost in costs],
            results=options.results,
        )
    )
    return 0 if all(cost.verdict == "below" for cost in costs) else 1


def page(costs: list[Cost], share: float) -> str:
    head = ["training", "iteration, ms", "with hooks / without", "without / without (null)", "1 %"]
    head += ["hooks' own account", "watcher / training", "blocks"]
    rows = [
        [
            cost.name,
            f"{cost.plain_ms:.2f}",
            str(cost.ratio),
            str(cost.null),
            cost.verdict,
            f"{cost.watching_s / cost.training_s:.2%}",
            f"{cost.watcher_s / cost.training_s:.1%}",
            f"{len(cost.blocks_ms)} of {cost.length} iterations",
        ]
        for cost in costs
    ]
    return (
        f"{table(head, rows)}\n\nProcessor time on one thread; medians over blocks with 95 % bootstrap intervals. "
        f"Share of the time for statistics: {share:.1%}. The verdict is below or above 1 % if the whole "
        "interval is there and the null's interval is within 1 ±1 %. Otherwise the measurement is "
        "inconclusive. The hooks' own account includes statistics, records and an estimate of 15 µs per "
        "iteration. The watcher runs in a separate process. Its processor time includes its start."
    )


if __name__ == "__main__":
    sys.exit(main())
