"""Measures the differences between fresh processes of one script, by hand and under Skyline.

Each process runs alone and is observed from outside: processor time and page faults per iteration, as counted by the
system. glibc's allocator may return memory at the end of its heap to the system and request it again in the next
iteration. That depends on the block at the end of the heap, which is random but the same for the whole life of a
process. ``--keep-memory`` switches this off for all processes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from interleaved import HandTimed, TimedScript
from iteration_time import SkylineTimed, subjects
from machine import Machine
from result_file import RESULTS, table, write

_KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_MMAP_MAX_": "0"}
_TURNS = 4
_TICK_MS = 1e3 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources used by a process, in total or per iteration, without its workers."""

    faults: float
    user_ms: float
    system_ms: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        """The usage so far, as counted by the kernel."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cls(int(fields[7]), int(fields[11]) * _TICK_MS, int(fields[12]) * _TICK_MS)

    def per_iteration(self, before: Usage, iterations: int) -> Usage:
        """The resources used since ``before``, per iteration."""
        return Usage(
            (self.faults - before.faults) / iterations,
            (self.user_ms - before.user_ms) / iterations,
            (self.system_ms - before.system_ms) / iterations,
        )


def by_hand(subject: TimedScript) -> Usage:
    """The usage of one process that is timed by hand."""
    with HandTimed(subject) as timed:
        timed.turn()
        before, done = Usage.of(timed.pid), timed.steps
        for _ in range(_TURNS):
            timed.turn()
        return Usage.of(timed.pid).per_iteration(before, timed.steps - done)


def by_skyline(subject: TimedScript) -> Usage:
    """The usage of one process under Skyline, without recording."""
    with ExitStack() as stack:
        timed = SkylineTimed(subject, stack)
        timed.turn()
        before, done = Usage.of(timed.pid), timed.steps
        for _ in range(_TURNS):
            timed.turn()
        return Usage.of(timed.pid).per_iteration(before, timed.steps - done)


def row(subject: TimedScript, how: str, drawn: Sequence[Usage]) -> list[str]:
    """One line of the table: the page faults of every process, and the medians of the other figures."""
    faults = ", ".join(f"{one.faults:.0f}" for one in sorted(drawn, key=lambda one: one.faults))
    spread = [one.user_ms + one.system_ms for one in drawn]
    return [
        subject.name,
        how,
        faults,
        f"{statistics.median(one.user_ms for one in drawn):.1f}",
        f"{min(one.system_ms for one in drawn):.1f} to {max(one.system_ms for one in drawn):.1f}",
        f"{statistics.median(spread):.1f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="+", help='command lines, as in "train.py --epochs 3"')
    parser.add_argument("--processes", type=int, default=10, help="of each kind")
    parser.add_argument("--keep-memory", action="store_true", help="also with all memory kept")
    parser.add_argument("--interpreter", default=sys.executable, help="the Python that runs the scripts")
    parser.add_argument("--threads", type=int, default=1, help="threads of each run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    machine = Machine.here()
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    for keeping in (False, True)[: 1 + options.keep_memory]:
        os.environ.update(_KEEPING if keeping else {})
        for subject in subjects(options.scripts, options.interpreter):
            drawn: dict[str, list[Usage]] = {"by hand": [], "Skyline": []}
            for _ in range(options.processes):
                drawn["by hand"].append(by_hand(subject))
                drawn["Skyline"].append(by_skyline(subject))
            for how, found in drawn.items():
                said = f"{how}, memory kept" if keeping else how
                rows.append(row(subject, said, found))
                print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
                processes = [asdict(one) for one in found]
                figures.append({"script": subject.name, "how": said, "processes": processes})
    head = [
        "script",
        "process",
        "page faults per iteration, each process",
        "user, ms",
        "system, ms",
        "processor in all, ms",
    ]
    body = (
        f"{table(head, rows)}\n\nFigures are per iteration: medians over the processes, and the range for "
        "system time. If the page faults of the processes fall into groups, two runs of the script differ by "
        "the difference of the groups, with Skyline or without. The ratio of two single runs then has no "
        "meaning. Memory kept: "
        f"{' '.join(f'{name}={value}' for name, value in _KEEPING.items())}."
    )
    print(
        write(
            "fresh_processes",
            "Fresh processes of one script",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
