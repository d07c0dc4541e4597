"""Differences between two processes of one script, separated into effects of the processes and of the load.

Pairs of processes of the unchanged script start one after another and take turns, without and with other programs that
are busy half of the time. Each half of a pair's rounds gives its log ratio. The difference of the two values is the
scatter within a pair; any additional scatter between pairs comes from the processes. Candidates for the statistic of a
pair are compared on the same turns. ``skyline.verification.paired_starts`` is based on the result.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

from busy_programs import busy_programs
from machine import Machine
from result_file import RESULTS, table, write

from skyline.capture.held_run import PACE, HeldRun
from skyline.capture.request import CaptureRequest
from skyline.capture.script_launcher import ScriptLauncher
from skyline.capture.warm_pool import WarmPool
from skyline.verification.budget_check import keeping_memory

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn of one side: its iterations, and the processor time and page faults per iteration (0: unknown)."""

    side: int
    steps_ms: tuple[float, ...]
    cpu_ms: float
    faults: float
    others_cores: float
    life: int


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes of one script. Each round is a turn of each side. ``kept``: they returned no memory."""

    script: str
    others: int
    rounds: tuple[tuple[TurnRecord, TurnRecord], ...]
    took_s: float
    kept: bool = False


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile of the values at ``share``, interpolated between neighbours."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


Rounds = Sequence[tuple[TurnRecord, TurnRecord]]


def of_rounds(rounds: Rounds) -> float:
    """The median over rounds of the log ratio of the turns' medians."""
    return statistics.median(
        math.log(statistics.median(second.steps_ms) / statistics.median(first.steps_ms))
        for first, second in rounds
    )


def of_iterations(share: float) -> Callable[[Rounds], float]:
    """A statistic: the log ratio of one quantile over all iterations of either side."""

    def log_ratio(rounds: Rounds) -> float:
        first, second = ([step for turns in rounds for step in turns[side].steps_ms] for side in (0, 1))
        return math.log(quantile(second, share) / quantile(first, share))

    return log_ratio


def of_means(rounds: Rounds) -> float:
    """The log ratio of the means over all iterations."""
    first, second = ([step for turns in rounds for step in turns[side].steps_ms] for side in (0, 1))
    return math.log(statistics.fmean(second) / statistics.fmean(first))


def of_turns(share: float) -> Callable[[Rounds], float]:
    """A statistic: the log ratio of one quantile of the medians of either side's turns."""

    def log_ratio(rounds: Rounds) -> float:
        first, second = ([statistics.median(turns[side].steps_ms) for turns in rounds] for side in (0, 1))
        return math.log(quantile(second, share) / quantile(first, share))

    return log_ratio


def of_calm_turns(rounds: Rounds) -> float:
    """The log ratio of the mean iteration, over the half of either side's turns with the least other load."""
    calm = [
        sorted((turns[side] for turns in rounds), key=lambda turn: turn.others_cores)[
            : (len(rounds) + 1) // 2
        ]
        for side in (0, 1)
    ]
    first, second = ([step for turn in turns for step in turn.steps_ms] for turns in calm)
    return math.log(statistics.fmean(second) / statistics.fmean(first))


def of_processor(rounds: Rounds) -> float:
    """The log ratio of the median processor time."""
    first, second = (
        statistics.median(turns[side].cpu_ms for turns in rounds if turns[side].cpu_ms) for side in (0, 1)
    )
    return math.log(second / first)


STATISTICS: dict[str, Callable[[Rounds], float]] = {
    "median of the rounds' ratios": of_rounds,
    "mean of all iterations": of_means,
    "median of all iterations": of_iterations(0.5),
    "lower quartile of all iterations": of_iterations(0.25),
    "lowest tenth of all iterations": of_iterations(0.1),
    "lower quartile of the turns' medians": of_turns(0.25),
    "fastest turn's median": of_turns(0.0),
    "mean of the calm half of the turns": of_calm_turns,
    "processor time": of_processor,
}


@dataclass(frozen=True, slots=True)
class Scatter:
    """Standard deviations of a pair's log ratio: total, within pairs, and between pairs (0 if none is seen)."""

    total: float
    within: float
    between: float
    worst: float

    @classmethod
    def of(cls, pairs: Sequence[Pair], statistic: Callable[[Rounds], float]) -> Scatter:
        """Compute the scatter from both halves of each pair's rounds.

        The variance of one half is half of the variance of the difference. A whole pair has half of that variance.
        """
        whole = [statistic(pair.rounds) for pair in pairs]
        apart = [statistic(pair.rounds[::2]) - statistic(pair.rounds[1::2]) for pair in pairs]
        total = statistics.fmean(one * one for one in whole)
        within = statistics.fmean(one * one for one in apart) / 4
        return cls(
            math.sqrt(total),
            math.sqrt(within),
            math.sqrt(max(0.0, total - within)),
            max(abs(one) for one in whole),
        )


def faults_of(pid: int) -> int:
    """The number of page faults of a process so far that needed no disk."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def recorded(run: HeldRun, side: int) -> TurnRecord:
    """One turn with its counters. A script that was restarted during the turn has none."""
    life, child = run.lives, run.child if run.lives else None
    before = (sum(child.cpu_s()), faults_of(child.pid)) if child is not None else None
    turn = run.turn()
    if turn is None:
        raise RuntimeError("the script came to its end")
    steps = tuple(row.step_ms for row in turn.rows)
    cpu_ms = faults = 0.0
    if before is not None and run.lives == life:
        done = len(steps) + 1
        cpu_ms = (sum(run.child.cpu_s()) - before[0]) * 1e3 / done
        faults = (faults_of(run.child.pid) - before[1]) / done
    return TurnRecord(side, steps, cpu_ms, faults, turn.others_cores, run.lives)


def pair_of(
    script: Path, number: int, others: int, rounds: int, turn_s: float, kept: bool, pool: WarmPool
) -> Pair:
    """Measure one pair. The order of starts and the order of turns alternate."""
    began = time.monotonic()
    cancel = threading.Event()
    with ExitStack() as stack:
        request = CaptureRequest(script=script)
        if kept:
            request = keeping_memory(request)
        runs = [
            stack.enter_context(
                HeldRun(
                    ScriptLauncher(request, cancel=cancel, starter=pool.start), replace(PACE, turn_s=turn_s)
                )
            )
            for _ in range(2)
        ]
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for side in order:
            runs[side].launch()
        for side in order:
            runs[side].warm_up()
        cycle = max(run.cycle for run in runs)
        for run in runs:
            run.cycle = cycle
            run.turn()
        done: list[tuple[TurnRecord, TurnRecord]] = []
        for index in range(rounds):
            turns = {side: recorded(runs[side], side) for side in (order if index % 2 == 0 else order[::-1])}
            done.append((turns[0], turns[1]))
    return Pair(script.stem, others, tuple(done), time.monotonic() - began, kept)


def load_of(pairs: Sequence[Pair]) -> float:
    """Mean number of cores that other programs used."""
    return statistics.fmean(turn.others_cores for pair in pairs for turns in pair.rounds for turn in turns)


def tables(pairs: Sequence[Pair]) -> str:
    """A table of the scatter for each script and number of other programs."""
    parts: list[str] = []
    kinds: dict[tuple[str, int, bool], list[Pair]] = {}
    for pair in pairs:
        kinds.setdefault((pair.script, pair.others, pair.kept), []).append(pair)
    for (script, others, kept), own in kinds.items():
        rows: list[list[str]] = []
        for name, statistic in STATISTICS.items():
            scatter = Scatter.of(own, statistic)
            figures = (scatter.total, scatter.within, scatter.between, scatter.worst)
            rows.append([name, *(f"{one:.1%}" for one in figures)])
        head = ["statistic of a pair", "in all", "within pairs", "between pairs", "largest"]
        faults = [
            statistics.median(turns[side].faults for turns in pair.rounds) for pair in own for side in (0, 1)
        ]
        parts += [
            f"## `{script}`, {others} busy programs{', memory kept' if kept else ''}",
            table(head, rows),
            _basis(own, faults),
        ]
    return "\n\n".join(parts)


def _basis(own: Sequence[Pair], faults: Sequence[float]) -> str:
    took_s = statistics.fmean(one.took_s for one in own)
    return (
        f"{len(own)} pairs of {len(own[0].rounds)} rounds, {took_s:.0f} s each; other programs used "
        f"{load_of(own):.2f} cores. Page faults per iteration, by process: {min(faults):.0f} to {max(faults):.0f}."
    )


def earlier(path: Path) -> list[Pair]:
    """The pairs of a result file. Empty if there is none."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return [
        Pair(
            row["script"],
            row["others"],
            tuple((TurnRecord(**first), TurnRecord(**second)) for first, second in row["rounds"]),
            row["took_s"],
            row["kept"],
        )
        for row in rows
    ]


def page(pairs: Sequence[Pair], machine: Machine, options: argparse.Namespace) -> str:
    """The result files of the pairs so far."""
    text = (
        "Standard deviations of the log ratio of two processes of the unchanged script, "
        f"on {machine.cores} cores. Its true value is 0.\n\n{tables(pairs)}"
    )
    title = "Two processes of one script, pair by pair"
    return write(options.name, title, machine, text, [asdict(one) for one in pairs], results=options.results)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scripts", nargs="+", default=["recommender", "small_gpt"], help="of the examples")
    parser.add_argument("--pairs", type=int, default=8, help="of each kind")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turn", type=float, default=0.35, help="seconds of a turn")
    parser.add_argument("--with", dest="others", type=int, nargs="+", default=[0, 1], help="other programs")
    parser.add_argument("--keep-memory", action="store_true", help="as skyline check sets the allocator")
    parser.add_argument("--add", action="store_true", help="keep the pairs of the result file")
    parser.add_argument("--name", default="process_pairs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    pairs = earlier(options.results / f"{options.name}.json") if options.add else []
    with closing(WarmPool()) as pool:
        for script, others in product(options.scripts, options.others):
            with busy_programs(others):
                for number in range(options.pairs):
                    path = EXAMPLES / f"{script}.py"
                    one = pair_of(
                        path, number, others, options.rounds, options.turn, options.keep_memory, pool
                    )
                    pairs.append(one)
                    figures = ", ".join(f"{statistic(one.rounds):+.3f}" for statistic in STATISTICS.values())
                    print(script, others, number, figures, f"{one.took_s:.0f} s", file=sys.stderr, flush=True)
                    page(pairs, machine, options)
    print(page(pairs, machine, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
