"""The simulator's claims in one table, each with its goal: the accuracy of replays, the speed and the memory.

    python benchmarks/simulator.py --traces FOLDER [--hta-python PATH] [--only-table]

Runs ``simulator_replay``, ``simulator_speed``, ``simulator_memory``, ``simulator_reading`` and ``simulator_ranks``,
each of which writes its own page, and makes one table from their results. ``--only-table`` makes the table from
existing results. If a goal is missed, the table says so, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import operator
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import Machine
from result_file import RESULTS, table, write

HERE = Path(__file__).resolve().parent
_RELATIONS = {"≤": operator.le, "≥": operator.ge}


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure and its goal. ``beside`` is a baseline, or a remark on how far the figure can be trusted."""

    what: str
    figure: float
    unit: str
    relation: str
    goal: float
    beside: str = ""

    @property
    def holds(self) -> bool:
        """True if the figure meets the goal."""
        return _RELATIONS[self.relation](self.figure, self.goal)

    def row(self) -> list[str]:
        """The cells of the table."""
        goal = f"{self.relation} {self.goal:g} {self.unit}"
        return [
            self.what,
            f"{self.figure:.3g} {self.unit}",
            goal,
            "yes" if self.holds else "MISSED",
            self.beside,
        ]


def figures_of(name: str, results: Path) -> Any:
    return json.loads((results / f"simulator_{name}.json").read_text(encoding="utf-8"))["figures"]


def claims(results: Path) -> list[Claim]:
    """All claims, from the figures of the pages."""
    return [*_replay(results), *_speed(results), *_memory(results), *_ranks(results)]


def _replay(results: Path) -> list[Claim]:
    found = figures_of("replay", results)
    replays, workers = found["replays"], found["workers"]
    single = [one["worst_error"] for one in replays if one["streams"] == 1]
    ways = {one["way"]: one["error"] for one in workers["foretold"]}
    (ours,) = (error for way, error in ways.items() if "Skyline" in way)
    others = ", ".join(f"{way} {error:+.1%}" for way, error in ways.items() if "Skyline" not in way)
    worst = max(one["worst_error"] for one in replays)
    read_and_built_s = max(one["read_s"] + one["build_s"] for one in replays)
    middle = statistics.median(one["error"] for one in replays)
    return [
        Claim("replay, traces of one stream: worst step", max(single) * 100, "%", "≤", 1.0, f"{len(single)} traces"),
        Claim("replay, all traces: median error", middle * 100, "%", "≤", 3.0,
              f"{len(replays)} traces, worst step {worst:.2%}"),
        Claim("reading and building a graph, slowest trace", read_and_built_s, "s", "≤", 1.5, "by the clock"),
        Claim("loader workers 0 to 4, compared with a trace with 4", abs(ours) * 100, "%", "≤", 5.0, others),
    ]  # fmt: skip


def _speed(results: Path) -> list[Claim]:
    found = figures_of("speed", results)
    rows = []
    for size, goal_ms in ((100_000, 2.0), (1_000_000, 30.0)):
        near = [one for one in found["speeds"] if abs(one["tasks"] / size - 1) < 0.1]
        slowest = max(near, key=lambda one: one["compiled"]["median"])
        python = slowest["as_written"]["median"]
        rows.append(
            Claim(f"one simulation of {size:,} tasks".replace(",", " "), slowest["compiled"]["median"], "ms", "≤",
                  goal_ms, f"slowest of {len(near)} graphs; not compiled {python:.3g} ms")
        )  # fmt: skip
    hta = found.get("hta")
    if not hta:
        return rows
    for name, row in hta["rows"].items():
        goal = 3.0 if "load" in name else 100.0
        ratio = row["ratio"]
        rows.append(
            Claim(f"HolisticTraceAnalysis over Skyline: {name}", ratio["value"], "x", "≥", goal,
                  f"[{ratio['low']:.3g}, {ratio['high']:.3g}]")
        )  # fmt: skip
    return rows


def _memory(results: Path) -> list[Claim]:
    rows = [one for one in figures_of("memory", results) if one["tasks"] == 1_000_000]
    simulated = next(one for one in rows if one["stage"] == "simulated")
    return [
        Claim("memory of 1 000 000 tasks, simulated", simulated["resident_mb"], "MB", "≤", 300.0,
              f"with ten changes kept {rows[-1]['resident_mb']:.0f} MB")
    ]  # fmt: skip


def _ranks(results: Path) -> list[Claim]:
    rounds = figures_of("ranks", results)["rounds"]
    ratio = statistics.median(one["predicted"] / one["without"] for one in rounds)
    null = statistics.median(one["again"] / one["without"] for one in rounds)
    unchanged = statistics.median(one["delayed"] / one["without"] for one in rounds)
    return [
        Claim("a real delay removed, predicted over measured", abs(ratio - 1) * 100, "%", "≤", 5.0,
              f"ratio {ratio:.3f}, null {null:.3f}, no change {unchanged:.2f}, {len(rounds)} rounds")
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, help="a folder of profiler traces (*.json.gz)")
    parser.add_argument("--hta-python", type=Path, help="an interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--only-table", action="store_true", help="make the table from existing results")
    options = parser.parse_args()
    if not options.only_table:
        if options.traces is None:
            parser.error("--traces FOLDER is needed, unless with --only-table")
        traces = str(options.traces)
        hta = ["--hta-python", str(options.hta_python)] if options.hta_python else []
        runs = {
            "replay": ["--traces", traces, "--save"],
            "speed": ["--traces", traces, *hta],
            "memory": [],
            "reading": [traces],
            "ranks": [traces],
        }
        for name, words in runs.items():
            subprocess.run([sys.executable, str(HERE / f"simulator_{name}.py"), *words], check=False)
    found = claims(RESULTS)
    body = table(["claim", "figure", "goal", "holds", "remark"], [claim.row() for claim in found])
    pages = "Each figure with its machine and spread: " + ", ".join(
        f"[{name}](simulator_{name}.md)" for name in ("replay", "speed", "memory", "reading", "ranks")
    )
    content = [asdict(claim) for claim in found]
    print(write("simulator", "The simulator's claims", Machine.here(), f"{body}\n\n{pages}.", content))
    return 0 if all(claim.holds for claim in found) else 1


if __name__ == "__main__":
    sys.exit(main())
