"""Measures the memory of a large graph: its columns, the data prepared from them, and ten changes stored with it.

Each size is measured in two separate processes. One counts the bytes that Python and numpy hold (tracemalloc). The
other measures the resident memory of the process (Linux), after numba, if installed, has been imported and has loaded
its loops.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from simulator_graphs import like_a_training_step

from skyline.compiled import Way, run_loops
from skyline.graph import (
    Cause,
    Graph,
    InsertedGpuWork,
    Task,
    TaskKind,
    WorkClass,
    cut_dependencies,
    insert_gpu_work,
    merge,
    prioritise,
    remove,
    replicate,
    scale,
    select,
)
from skyline.simulate import simulate
from skyline.trace.record import Phase

SIZES = (100_000, 1_000_000)
GOAL_MB = 300
MB = 1e6

Changes = dict[str, Callable[[Graph], Graph]]


def changes() -> Changes:
    """One what-if for each primitive."""
    return {
        "scale kernels": lambda g: scale(g, select(g, on_gpu=True), 0.5),
        "scale one layer": lambda g: scale(g, select(g, layer="layer3"), 0.5, gaps=True),
        "scale CPU work": lambda g: scale(g, select(g, kind=TaskKind.CPU), 0.5, gaps=True),
        "override a schedule": lambda g: prioritise(g, select(g, lane="stream 20"), 1.0),
        "cut dependencies": lambda g: cut_dependencies(g, cause=Cause.EVENT),
        "insert 1000 kernels": insert_thousand,
        "remove a layer's kernels": lambda g: remove(
            g, select(g, layer="layer3", on_gpu=True), launches=True
        ),
        "merge a layer's kernels": merge_layer,
        "replicate the first step": lambda g: replicate(g, select(g, iteration=0), 2),
    }


def insert_thousand(graph: Graph) -> Graph:
    places = select(graph, kind=TaskKind.CPU)[:: max(1, len(graph) // 3000)][:1000]
    kernel = Task("new", TaskKind.KERNEL, WorkClass.OTHER, "stream 7", Phase.FORWARD, 0)
    return insert_gpu_work(graph, [InsertedGpuWork(kernel, 10.0, after) for after in places.tolist()])


def merge_layer(graph: Graph) -> Graph:
    return merge(graph, select(graph, layer="layer3", on_gpu=True))


def stages(size: int) -> Iterator[tuple[str, object, float]]:
    """For each stage, its name, the object that must stay alive, and its time in s."""
    begin = perf_counter()
    graph = like_a_training_step(size)
    yield "the graph", graph, perf_counter() - begin
    begin = perf_counter()
    structure = graph.structure
    prepared = (structure.order, structure.before, structure.incoming_source, structure.incoming_lag)
    yield "prepared for simulation", prepared, perf_counter() - begin
    begin = perf_counter()
    timeline = simulate(graph)
    yield "simulated", timeline, perf_counter() - begin
    for name, change in changes().items():
        begin = perf_counter()
        changed = change(graph)
        yield name, changed, perf_counter() - begin


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def measure(size: int, traced: bool) -> None:
    """Print a line of JSON for each stage, with the bytes held since the start. Runs in its own process."""
    # Warm up with a small graph, because the freed memory of a large one would be reused without being seen.
    with run_loops(Way.COMPILED if find_spec("numba") else Way.AS_WRITTEN):
        simulate(like_a_training_step(30_000))
    gc.collect()
    if traced:
        tracemalloc.start()
    look = (lambda: tracemalloc.get_traced_memory()[0]) if traced else resident_bytes
    before = look()
    kept: list[object] = []
    for name, made, seconds in stages(size):
        kept.append(made)
        gc.collect()
        print(json.dumps({"stage": name, "bytes": look() - before, "seconds": seconds}))


def measured(size: int, traced: bool) -> list[dict[str, object]]:
    command = [sys.executable, __file__, "--measure", str(size), *(["--traced"] if traced else [])]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.traced)
        return 0
    machine = Machine.here()
    warn_when_busy(machine)
    rows: list[list[str]] = []
    figures: list[dict[str, object]] = []
    for size in SIZES:
        print(f"{size} tasks", file=sys.stderr)
        held, resident = measured(size, traced=True), measured(size, traced=False)
        last = np.zeros(2)
        for ours, systems in zip(held, resident, strict=True):
            now = np.array([ours["bytes"], systems["bytes"]], np.float64) / MB
            stage = str(ours["stage"])
            cells = [f"{value:.1f}" for value in (*now, *(now - last))]
            rows.append([f"{size:,}", stage, *cells, f"{float(str(systems['seconds'])) * 1e3:.1f}"])
            figures.append(
                {
                    "tasks": size,
                    "stage": stage,
                    "held_mb": now[0],
                    "resident_mb": now[1],
                    "seconds": systems["seconds"],
                }
            )
            last = now
    head = ["tasks", "with", "held, MB", "resident, MB", "held more by", "resident more by", "made in, ms"]
    body = (
        f"{table(head, rows)}\n\nGoal: a graph of 1,000,000 tasks, prepared and simulated, within {GOAL_MB} "
        "MB. Each row includes all rows above it: one graph and ten changes of it."
    )
    print(
        write(
            "simulator_memory",
            "Memory of a graph",
            machine,
            body,
            figures,
            results=options.results,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
