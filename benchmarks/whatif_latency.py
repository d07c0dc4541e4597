"""Measures the time of an answer: for every what-if alone, for three at a time, and for the best combination.

Each example is profiled once, and traced for a GPU. Then questions are asked as by the language server, without
cached answers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.analysis.analyse import analyse
from skyline.analysis.best import best
from skyline.analysis.estimate import estimate
from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.predict.gpu_profile import gpu_profile
from skyline.whatif.composition import detected_in
from skyline.whatif.question import Choice, Question
from skyline.whatif.registry import whatif_named, whatifs

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
GPU = "A100"
TOGGLE_MS, SEARCH_S = 50.0, 2.0
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Latency:
    """One profile: its size, and the times of answers."""

    script: str
    tasks: int
    whatifs: int
    toggle_ms: float
    slowest_ms: float
    slowest: str
    three_ms: float
    search_s: float
    tried: int


def measured(script: Path, gpu: str) -> Latency:
    """The latencies of one script."""
    with tempfile.TemporaryDirectory() as folder:
        request = CaptureRequest(script, working_directory=Path(folder), gpu=gpu)
        made_by = gpu_profile if gpu else capture
        profile = made_by(request, progress=lambda _: None)
    analysis = analyse(profile)
    names = [name for name in whatifs() if detected_in(analysis.baseline, whatif_named(name)).applicable]

    def took_ms(*chosen: str) -> float:
        question = Question(choices=tuple(map(Choice, chosen)))
        estimate(analysis, question)  # prepares the data that each profile needs once
        samples: list[float] = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            estimate(analysis, question)
            samples.append((time.perf_counter() - began) * 1e3)
        return statistics.median(samples)

    singles = {name: took_ms(name) for name in names}
    threes = [took_ms(*three) for three in list(combinations(names, 3))[:40]]
    began = time.perf_counter()
    found = best(analysis)
    return Latency(
        f"{script.name}{f' for {gpu}' if gpu else ''}",
        len(analysis.baseline.operators),
        len(names),
        statistics.median(singles.values()),
        max(singles.values()),
        max(singles, key=lambda name: singles[name]),
        max(threes, default=0.0),
        time.perf_counter() - began,
        found.tried,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[Latency] = []
    for script in [path.resolve() for path in options.scripts] or sorted(EXAMPLES.glob("*.py")):
        for gpu in ("", GPU):
            try:
                rows.append(measured(script, gpu))
            except SkylineError as failed:
                print(f"{script.name}: {failed.message}", file=sys.stderr)
    body = table(
        [
            "script",
            "operators",
            "what-ifs",
            "toggle, median",
            "slowest",
            "",
            "three, slowest",
            "best search",
            "tried",
        ],
        [
            [
                row.script,
                str(row.tasks),
                str(row.whatifs),
                f"{row.toggle_ms:.1f} ms",
                f"{row.slowest_ms:.1f} ms",
                row.slowest,
                f"{row.three_ms:.1f} ms",
                f"{row.search_s:.2f} s",
                str(row.tried),
            ]
            for row in rows
        ],
    )
    bars = f"Goals: {TOGGLE_MS:.0f} ms for a toggle, {SEARCH_S:.0f} s for the search. Medians of {REPEATS} answers."
    print(write("whatif_latency", "Time to an answer", machine, f"{body}\n\n{bars}", [asdict(row) for row in rows],
                results=options.results))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
