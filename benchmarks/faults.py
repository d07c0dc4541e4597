"""Injects hundreds of faults into the product, and checks if any of them loses something.

A small project is profiled, and then harmed in one way after the other: processes are killed at random moments, disks
are full, saved files are torn, scripts are hostile. After each fault, no process, temporary file, partial file,
descriptor or shared memory may be left, no file of the project may have changed in content, mode or time, and the home
may hold nothing new outside of caches and data. Every command must have ended with a message. The last good figures and
the entries of the ledger must be the same as before, or belong to a run that was saved since. The exit status is 1 if
anything was lost. Linux only. Disks are mounted if that is allowed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from fault_command import Lost
from fault_kinds import Kind, kinds
from fault_project import Project, descendants, kill
from machine import Machine
from result_file import RESULTS, table, write


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One fault: the message that the user saw, and the loss (empty: none)."""

    kind: str
    number: int
    told: str
    lost: str
    seconds: float


def plan(all_kinds: Sequence[Kind], faults: int) -> list[tuple[Kind, int]]:
    """``faults`` faults in mixed order, each kind in proportion to its weight and at least once."""
    weight = sum(kind.weight for kind in all_kinds)
    counts = {kind.name: max(1, round(faults * kind.weight / weight)) for kind in all_kinds}
    planned = [
        (number / counts[kind.name], kind, number)
        for kind in all_kinds
        for number in range(counts[kind.name])
    ]
    return [(kind, number) for _, kind, number in sorted(planned, key=lambda one: one[0])]


def inject(project: Project, kind: Kind, number: int, seed: int) -> InjectedFault:
    """Restore the project, inject the fault, and check what is left."""
    project.restore()
    before = project.checksum()
    began = time.monotonic()
    told = lost = ""
    try:
        told = kind.inject(project, Random(f"{seed} {kind.name} {number}"))
        project.check(
            before,
            keeps_profile=kind.keeps_profile,
            keeps_ledger=kind.keeps_ledger,
            leaves_partial=kind.leaves_partial,
        )
    except Lost as error:
        lost = str(error)
    except Exception as error:
        lost = f"the fault itself failed: {error!r}"
    if lost:
        kill(descendants())
    return InjectedFault(kind.name, number, told, lost, time.monotonic() - began)


def inject_all(
    planned: Sequence[tuple[str, int]],
    seed: int,
    minutes: float,
    budget_s: float | None,
    program: Path | None,
) -> list[InjectedFault]:
    """Inject these faults one after another into their own project, and report each on stderr."""
    by_name = {kind.name: kind for kind in kinds()}
    tried: list[InjectedFault] = []
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="skyline-faults-") as folder:
        project = Project(Path(folder), budget_s, program)
        project.prepare()
        for name, number in planned:
            if time.monotonic() > end:
                print("the time limit is reached", file=sys.stderr)
                break
            one = inject(project, by_name[name], number, seed)
            tried.append(one)
            said = f"LOST: {one.lost}" if one.lost else one.told.partition("\n")[0]
            print(f"{one.kind} {one.number}: {one.seconds:.1f} s: {said}", file=sys.stderr, flush=True)
    return tried


def earlier(path: Path) -> list[InjectedFault]:
    """The faults of an earlier run."""
    return [InjectedFault(**one) for one in json.loads(path.read_bytes())["figures"]]


def may_mount() -> bool:
    """True if this user may mount a small disk."""
    with tempfile.TemporaryDirectory() as folder:
        mount = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
        if mount.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return mount.returncode == 0


def page(tried: Sequence[InjectedFault], left_out: Sequence[str], seed: int) -> str:
    """The table by kind, followed by the losses."""
    names = list(dict.fromkeys(one.kind for one in tried))
    rows: list[list[str]] = []
    for name in names:
        of_kind = [one for one in tried if one.kind == name]
        survived = sum(1 for one in of_kind if not one.lost)
        told = next((one.told for one in of_kind if one.told), "").replace("|", "\\|").splitlines()
        rows.append([name, str(len(of_kind)), str(survived), told[0][:90] if told else ""])
    lost = [one for one in tried if one.lost]
    said = "\n".join(f"- {one.kind}, number {one.number}: {one.lost}" for one in lost) or "Nothing was lost."
    omitted = f"\n\nLeft out, because this user may not mount: {', '.join(left_out)}." if left_out else ""
    return (
        f"{len(tried)} faults of {len(names)} kinds, seed {seed}; survived: {len(tried) - len(lost)}.\n\n"
        f"{table(['fault', 'tried', 'survived', 'message of one of them'], rows)}\n\n{said}{omitted}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=500, help="approximate number of faults in all")
    parser.add_argument("--kinds", default="", help="only kinds with one of these words, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults at the same time")
    parser.add_argument("--minutes", type=float, default=600, help="stop after this time")
    parser.add_argument(
        "--budget", type=float, help="seconds for trials in each profile (default: as in use)"
    )
    parser.add_argument("--program", type=Path, help="a script that is run as ``skyline``")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    parser.add_argument("--add", action="store_true", help="add to the faults of the result file")
    options = parser.parse_args()
    machine = Machine.here()
    words = [word for word in options.kinds.split(",") if word]
    wanted = [kind for kind in kinds() if not words or any(word in kind.name for word in words)]
    left_out: list[str] = []
    if not may_mount():
        left_out = [kind.name for kind in wanted if kind.mounts]
        wanted = [kind for kind in wanted if not kind.mounts]
    planned = plan(wanted, options.faults)
    slices = [planned[first :: options.jobs] for first in range(options.jobs)]
    names = [[(kind.name, number) for kind, number in one] for one in slices]
    # Separate processes, so that each adopts only the processes that its own commands leave behind.
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        run = partial(
            inject_all,
            seed=options.seed,
            minutes=options.minutes,
            budget_s=options.budget,
            program=options.program,
        )
        tried = [one for part in pool.map(run, names) for one in part]
    if options.add:
        tried = [*earlier(options.results / "faults.json"), *tried]
    title = "Losses after injected faults"
    figures = [asdict(one) for one in tried]
    print(
        write("faults", title, machine, page(tried, left_out, options.seed), figures, results=options.results)
    )
    return 1 if any(one.lost for one in tried) else 0


if __name__ == "__main__":
    sys.exit(main())
