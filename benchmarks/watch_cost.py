"""The cost of ``skyline watch``: processor time and iteration time with and without it.

Three processes of one script take turns, each stopped while another computes: plain, watched, plain again. A round
gives two ratios of processor time per iteration: watched over the mean of both plain ones, and the null, plain over
plain. The watcher's own processor time counts as the watched run's. The time while a run is stopped also counts for
its budget of statistics, so that it gets a third of the usual share.

With ``--unbounded`` the watched run gets a share of 10 % instead, to see whether the bound is the one that is set.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from interleaved import HandTimed, TimedScript
from machine import Machine, warn_when_busy
from ratio import Ratio
from result_file import RESULTS, table, write

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_USUAL_SHARE = 0.005
_RUNS = 3
_LIMIT = 1.01
SMALL = """
import torch
from torch import nn

torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(8192, 64), torch.randint(0, 10, (8192,)))
loader = torch.utils.data.DataLoader(data, batch_size=128, shuffle=True)
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters())
while True:
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""


@dataclass(frozen=True, slots=True)
class Round:
    """Processor time and time per iteration of a turn of each run; ``watcher_ms`` is a part of ``watched_ms``."""

    plain_ms: float
    watched_ms: float
    again_ms: float
    watcher_ms: float
    plain_wall_ms: float
    watched_wall_ms: float
    again_wall_ms: float

    @property
    def ratio(self) -> float:
        return self.watched_ms / statistics.mean([self.plain_ms, self.again_ms])

    @property
    def null(self) -> float:
        return self.again_ms / self.plain_ms

    @property
    def wall_ratio(self) -> float:
        return self.watched_wall_ms / statistics.mean([self.plain_wall_ms, self.again_wall_ms])


class Run:
    """A run that takes turns, with the processor time of its processes."""

    def __init__(self, timed: HandTimed) -> None:
        self._timed = timed

    def turn(self) -> tuple[float, float, float] | None:
        """Processor time per iteration, that of the watcher in it, and the median iteration, in ms."""
        steps, cpu = self._timed.steps, self._cpu_s()
        turn = self._timed.turn()
        done = self._timed.steps - steps
        if turn is None or not done:
            return None
        each = [(after - before) / done * 1e3 for before, after in zip(cpu, self._cpu_s(), strict=True)]
        return sum(each), each[0] if len(each) > 1 else 0.0, turn.typical_ms

    def _cpu_s(self) -> list[float]:
        parent = psutil.Process(self._timed.pid)
        return [sum(process.cpu_times()[:2]) for process in (parent, *parent.children(recursive=True))]


def measured(script: Path, rounds: int, share: float) -> list[Round]:
    watch = (sys.executable, "-m", "skyline", "watch", "--quiet", "--no-history")
    watch = (*watch, "--interpreter", sys.executable, "--overhead", str(share))
    found: list[Round] = []
    with ExitStack() as stack:
        plain, watched, again = (
            Run(stack.enter_context(HandTimed(TimedScript(script, launcher=launcher))))
            for launcher in ((), watch, ())
        )
        for number in range(rounds):
            order = (plain, watched, again) if number % 2 == 0 else (again, watched, plain)
            turns = {run: run.turn() for run in order}
            if None in turns.values():
                continue
            one, two, three = (turns[run] for run in (plain, watched, again))
            found.append(Round(one[0], two[0], three[0], two[1], one[2], two[2], three[2]))  # type: ignore[index]
            print(f"{script.name}: {found[-1].ratio:.3f}, null {found[-1].null:.3f}", file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path, help="default: a small network, and two examples")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1, help="threads of each run")
    parser.add_argument("--unbounded", action="store_true")
    parser.add_argument("--name", default="watch_cost", help="name of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    machine = Machine.here()
    warn_when_busy(machine)
    share = 0.1 if options.unbounded else _USUAL_SHARE / _RUNS
    rows: list[list[str]] = []
    figures: dict[str, list[dict[str, float]]] = {}
    within = True
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.py"
        small.write_text(SMALL, encoding="utf-8")
        scripts = options.scripts or [small, EXAMPLES / "small_gpt.py", EXAMPLES / "image_classifier.py"]
        for script in scripts:
            rounds = measured(script, options.rounds, share)
            figures[script.name] = [asdict(one) for one in rounds]
            ratio, null = Ratio.of([one.ratio for one in rounds]), Ratio.of([one.null for one in rounds])
            within = within and ratio.value < _LIMIT
            rows.append(
                [
                    script.name,
                    f"{statistics.median(one.plain_ms for one in rounds):.2f}",
                    str(ratio),
                    str(null),
                    f"{statistics.median(one.watcher_ms for one in rounds):.3f}",
                    str(Ratio.of([one.wall_ratio for one in rounds])),
                    str(len(rounds)),
                ]
            )
    head = ["script", "processor time per iteration, ms", "watched / plain", "plain / plain (null)"]
    head += ["of that the watcher, ms", "iteration time, watched / plain", "rounds"]
    body = (
        f"{table(head, rows)}\n\nMedians over rounds with 95 % bootstrap intervals; "
        f"{options.threads} thread(s) per run. "
        f"Share of the time allowed for statistics: {share * _RUNS:.3f}. Processor time on a busy machine "
        "still contains the effects of shared caches and memory; iteration times there say little."
    )
    print(write(options.name, "The cost of watching", machine, body, figures, results=options.results))
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
