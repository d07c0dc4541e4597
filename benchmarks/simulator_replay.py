"""Checks how well the graph of a profiler trace replays its own steps, and how well it predicts a change.

    python benchmarks/simulator_replay.py [--traces FOLDER] [--save]

For every trace of the folder, the table has the error of each step's simulated length. One launch latency and one
stream turnaround apply to the whole trace, and nothing is fitted to single tasks. The table also shows the effect on
the step of halving the GPU times and of halving the CPU times, because a CPU-bound step replays well even with a wrong
model of the GPU. Then follows the only measured change: the same script with 0 and with 4 loader workers, predicted
from the first trace alone.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from machine import Machine
from result_file import table, write

from skyline.graph.assembly import KinetoGraph
from skyline.graph.column import Times
from skyline.graph.from_kineto import built
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.predict.fetching_costs import FetchingCosts
from skyline.simulate.engine import simulate
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.trace.kineto.reader import read
from skyline.whatif.cost.fetching import with_workers

TRACES = Path(__file__).parents[2] / "shared" / "data" / "traces"
BEFORE, AFTER, WORKERS = "kineto_2101_resnet50_workers0", "kineto_2101_resnet50_workers4", 4
NO_COSTS = FetchingCosts(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Replay:
    """One trace. Step times are medians over the inner steps, in ms. Errors are shares of the measured step."""

    trace: str
    tasks: int
    streams: int
    steps: int
    measured_ms: float
    error: float
    worst_error: float
    gpu_halved_ms: float
    cpu_halved_ms: float
    launch_latency_us: float
    turnaround_us: float
    found: dict[str, int]
    read_s: float
    build_s: float


@dataclass(frozen=True, slots=True)
class Foretold:
    """One way to predict the step with workers, in ms."""

    way: str
    step_ms: float
    error: float


def replayed(path: Path) -> tuple[ProfilerTrace, KinetoGraph, Replay]:
    """A trace that was read, built into a graph and simulated."""
    begin = time.perf_counter()
    trace = read(path)
    at_read = time.perf_counter()
    recorded = built(trace)
    at_built = time.perf_counter()
    graph = recorded.graph
    measured, simulated = lengths_us(recorded, graph, measured=True), lengths_us(recorded, graph)
    errors = np.abs(simulated / measured - 1)
    inner = recorded.steps.inner if len(recorded.steps) else slice(None)
    halves = [
        float(
            np.median(lengths_us(recorded, scale(graph, select(graph, on_gpu=gpu), 0.5, gaps=not gpu))[inner])
        )
        for gpu in (True, False)
    ]
    return (
        trace,
        recorded,
        Replay(
            path.name.removesuffix(".json.gz"),
            len(graph),
            sum(lane.startswith(("stream", "gpu")) for lane in graph.tasks.lanes),
            len(recorded.steps),
            float(np.median(measured[inner])) / 1e3,
            float(np.median(errors[inner])),
            float(errors.max()),
            halves[0] / 1e3,
            halves[1] / 1e3,
            recorded.constants.launch_latency_us,
            recorded.constants.turnaround_us,
            recorded.found,
            at_read - begin,
            at_built - at_read,
        ),
    )


def lengths_us(recorded: KinetoGraph, graph: Graph, *, measured: bool = False) -> Times:
    """The lengths of the steps. If the trace has no steps, the length of all of it."""
    if len(recorded.steps):
        if measured:
            return recorded.steps.measured_us
        return recorded.steps.simulated_us(np.asarray(simulate(graph).starts))
    if measured:
        ends = recorded.start_us + graph.durations
        return np.array([ends.max() - recorded.start_us.min()])
    return np.array([simulate(graph).makespan_us])


def foretold(trace: ProfilerTrace, before: KinetoGraph, after: KinetoGraph) -> tuple[float, list[Foretold]]:
    """The measured step with workers, and several predictions of it from the trace without workers."""
    inner = before.steps.inner
    measured = float(np.median(after.steps.measured_us[after.steps.inner]))
    now = float(np.median(before.steps.measured_us[inner]))
    full, bare = with_workers(trace, before, WORKERS), with_workers(trace, before, WORKERS, NO_COSTS)
    said = {
        "no change": now,
        "step minus loader time": now - full.loading_us,
        "loader moved to workers, passing batches costs nothing": float(np.median(bare.step_us[inner])),
        "loader moved to workers (what Skyline says)": float(np.median(full.step_us[inner])),
    }
    return measured / 1e3, [Foretold(way, us / 1e3, us / measured - 1) for way, us in said.items()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--save", action="store_true", help="keep the page in benchmarks/results")
    chosen = parser.parse_args()
    machine = Machine.here()
    rows: list[Replay] = []
    kept: dict[str, tuple[ProfilerTrace, KinetoGraph]] = {}
    for path in sorted(chosen.traces.glob("*.json.gz")):
        trace, recorded, row = replayed(path)
        rows.append(row)
        if row.trace in (BEFORE, AFTER):
            kept[row.trace] = (trace, recorded)
    body = page(rows)
    figures: dict[str, object] = {"replays": [asdict(row) for row in rows]}
    if len(kept) == 2:
        measured_ms, ways = foretold(*kept[BEFORE], kept[AFTER][1])
        figures["workers"] = {"measured_ms": measured_ms, "foretold": [asdict(way) for way in ways]}
        body += "\n\n" + workers_page(measured_ms, ways)
    if chosen.save:
        print(write("simulator_replay", "Replay of profiler traces", machine, body, figures))
    else:
        print(machine.sentence(), body, sep="\n\n")


def page(rows: list[Replay]) -> str:
    """The table of replays and its summary."""
    head = (
        "trace",
        "tasks",
        "streams",
        "steps",
        "measured ms",
        "error",
        "worst step",
        "GPU x0.5",
        "CPU x0.5",
    )
    cells = [
        (
            row.trace,
            str(row.tasks),
            str(row.streams),
            str(row.steps) if row.steps else "whole",
            f"{row.measured_ms:.2f}",
            f"{row.error:.2%}",
            f"{row.worst_error:.2%}",
            f"{row.gpu_halved_ms / row.measured_ms:.0%}",
            f"{row.cpu_halved_ms / row.measured_ms:.0%}",
        )
        for row in rows
    ]
    return f"""\
Steps are those marked by the script, otherwise from one batch or optimizer step to the next, otherwise the
whole trace (`whole`). Figures are medians over the inner steps; `worst step` is over all. The last two
columns are the length of the step if all GPU times, or all CPU times and gaps, are halved. 100 % means that
the other side bounds the step.

{table(head, cells)}

Median error {np.median([row.error for row in rows]):.2%}, worst of all steps \
{max(row.worst_error for row in rows):.2%}. Built in {max(row.build_s for row in rows):.2f} s at most, after reading \
in {max(row.read_s for row in rows):.2f} s at most."""


def workers_page(measured_ms: float, ways: list[Foretold]) -> str:
    """The predictions for loader workers."""
    cells = [(way.way, f"{way.step_ms:.1f}", f"{way.error:+.1%}") for way in ways]
    return f"""\
## From 0 to {WORKERS} loader workers

`{BEFORE}` with the batches made by workers, compared with `{AFTER}`: measured {measured_ms:.1f} ms. The cost
of passing batches between processes was measured on another machine (`benchmarks/simulator_loader.py`).

{table(("way", "step ms", "error"), cells)}"""


if __name__ == "__main__":
    main()
