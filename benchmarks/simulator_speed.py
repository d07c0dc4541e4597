"""Measures the time of one simulation, compiled and as written, and of HolisticTraceAnalysis on the same trace.

Graphs of 10 000, 100 000 and 1 000 000 tasks are generated similar to a training step, or are a real trace repeated
to that size. Each round times the compiled pass and the pass as written one after the other. Times are processor time
of the single working thread, so that figures are valid on a busy machine too; only loading is measured in wall time.
HolisticTraceAnalysis has its own environment (``pip install HolisticTraceAnalysis 'pandas<3'``), named by
``--hta-python``. Its rounds alternate with Skyline's.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from machine import Machine, warn_when_busy
from ratio import Ratio
from result_file import RESULTS, table, write
from simulator_graphs import again, like_a_training_step

from skyline.compiled import Way, run_loops
from skyline.graph import load, scale, select, stitch
from skyline.graph.graph import Graph, Structure
from skyline.simulate import (
    schedule,
    simulate,
    steady_step_ms,
)
from skyline.simulate.critical_path import critical_path

TRACES = Path(__file__).parents[2] / "shared" / "data" / "traces"
REAL = "kineto_2101_resnet50_workers0.json.gz"
COMPARED = "hta_v100_resnet50_ddp1.json.gz"
COMPARED_STEP = 2
SIZES = (10_000, 100_000, 1_000_000)
_HOW = """Times are ms of processor time of one thread: medians over rounds, with quartiles. Ratios have the
95 % interval of their median. Loading is measured in wall time."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times in ms: the median of the rounds, and their lower and upper quartile."""

    median: float
    quicker: float
    slower: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Times:
        """The summary of the times of all rounds."""
        quicker, _, slower = statistics.quantiles(milliseconds, n=4, method="inclusive")
        return cls(statistics.median(milliseconds), quicker, slower)

    def __str__(self) -> str:
        return f"{self.median:.3g} [{self.quicker:.3g}, {self.slower:.3g}]"


@dataclass(frozen=True, slots=True)
class Speed:
    """One graph: its size, and the times of preparing and simulating it."""

    graph: str
    tasks: int
    dependencies: int
    preparation: Times
    compiled: Times
    as_written: Times
    ratio: Ratio
    """Ratio of the time as written over the compiled time, per round."""


def milliseconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """The duration of one call in ms, in processor time unless another clock is given."""
    began = clock()
    work()
    return (clock() - began) * 1e3


def in_way(way: Way, work: Callable[[], object]) -> float:
    """The duration of a call in ms, with its loops run in one way."""
    with run_loops(way):
        return milliseconds(work)


def speed_of(name: str, graph: Graph, rounds: int) -> Speed:
    """Measure one graph."""
    with run_loops(Way.COMPILED):
        simulate(graph)
        fresh = [again(graph) for _ in range(rounds)]
        prepared = [milliseconds(partial(_prepare, one)) for one in fresh]
    pairs = [
        (
            in_way(Way.COMPILED, lambda: simulate(graph)),
            in_way(Way.AS_WRITTEN, lambda: simulate(graph)),
        )
        for _ in range(rounds)
    ]
    compiled, written = zip(*pairs, strict=True)
    return Speed(
        name,
        len(graph),
        len(graph.structure.dependencies),
        Times.of(prepared),
        Times.of(compiled),
        Times.of(written),
        Ratio.of([slow / quick for quick, slow in pairs]),
    )


def _prepare(graph: Graph) -> None:
    structure = graph.structure
    for column in ("order", "incoming_offsets", "incoming_source", "incoming_lag", "incoming_from_start"):
        getattr(structure, column)


def repeated_to(graph: Graph, tasks: int) -> Graph:
    """A graph repeated until it has about ``tasks`` tasks."""
    return stitch(graph, max(1, round(tasks / len(graph))) * len(graph.iterations))


def further(graph: Graph, rounds: int) -> dict[str, Times]:
    """Compiled times of other questions about a graph."""
    timeline = simulate(graph)
    asked: dict[str, Callable[[], object]] = {
        "simulate": lambda: simulate(graph),
        "scale all kernels and simulate": lambda: simulate(scale(graph, select(graph, on_gpu=True), 0.5)),
        "critical path by cause": lambda: critical_path(timeline),
        "schedule (ready tasks, priorities)": lambda: schedule(graph),
        "steady state": lambda: steady_step_ms(graph),
    }
    found: dict[str, Times] = {}
    with run_loops(Way.COMPILED):
        for what, work in asked.items():
            work()
            found[what] = Times.of([milliseconds(work) for _ in range(rounds)])
    return found


def first_use() -> dict[str, float]:
    """Processor time in s until a fresh process has run a compiled simulation: at a machine's first use, and later."""
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from simulator_graphs import like_a_training_step\n"
        "from skyline.compiled import Way, run_loops\n"
        "from skyline.simulate.engine import simulate\n"
        "graph = like_a_training_step(1000); simulate(graph); began = time.process_time()\n"
        "with run_loops(Way.COMPILED): simulate(graph)\n"
        "print(time.process_time() - began)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        command = [sys.executable, "-c", program, str(Path(__file__).parent)]
        first, later = (
            float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
            for _ in range(2)
        )
    return {"first use on a machine": first, "first use in a process": later}


class OtherTool:
    """HolisticTraceAnalysis in its own process, controlled over its stdin."""

    def __init__(self, python: Path, folder: Path) -> None:
        script = Path(__file__).parent / "hta_resimulation.py"
        self._process = subprocess.Popen(
            [str(python), str(script), str(folder), str(COMPARED_STEP)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.first = self._read()

    def again(self, factor: float) -> dict[str, float]:
        """Its answer after an edit."""
        assert self._process.stdin is not None
        print(factor, file=self._process.stdin, flush=True)
        return self._read()

    def __enter__(self) -> OtherTool:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> dict[str, float]:
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline() or '{"failed": "it ended without output"}')
        if "failed" in told:
            raise RuntimeError(str(told["failed"]))
        return told


def one_step(graph: Graph, place: int) -> Graph:
    """The tasks of one iteration, and the dependencies among them."""
    chosen = np.flatnonzero(graph.tasks.iteration == graph.iterations[place])
    new = np.full(len(graph), -1, np.int32)
    new[chosen] = np.arange(len(chosen))
    dependencies = graph.structure.dependencies
    within = dependencies.taken((new[dependencies.source] >= 0) & (new[dependencies.target] >= 0))
    dependencies = within.between(new[within.source], new[within.target])
    structure = Structure(graph.tasks.taken(chosen), dependencies)
    return Graph(structure, graph.durations[chosen], graph.gaps[chosen])


def compare(python: Path, trace: Path, rounds: int) -> tuple[str, dict[str, object]]:
    """Compare both tools in turns, on the same edits of the same trace. Returns a paragraph and its figures."""
    loads: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(trace, Path(folder) / "rank-0.json.gz")
        for _ in range(3):
            ours = milliseconds(lambda: critical_path(simulate(load(trace))), time.perf_counter)
            with OtherTool(python, Path(folder)) as other:
                loads.append((ours, (other.first["load_s"] + other.first["first_answer_s"]) * 1e3))
        whole = load(trace)
        single = one_step(whole, COMPARED_STEP)
        asked = {"one step": single, f"all {len(whole.iterations)} steps": whole}
        edits: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
        spans: list[dict[str, float]] = []
        with run_loops(Way.COMPILED), OtherTool(python, Path(folder)) as other:
            critical_path(simulate(whole))
            for turn in range(rounds):
                factor = 0.5 if turn % 2 == 0 else 1.0
                answer = other.again(factor)
                spans.append({"factor": factor, "hta_us": answer["span_us"]})
                for name, graph in asked.items():
                    kernels = select(graph, on_gpu=True)

                    def ask(graph: Graph = graph, kernels: object = kernels, factor: float = factor) -> float:
                        timeline = simulate(scale(graph, kernels, factor))
                        critical_path(timeline)
                        return timeline.makespan_us

                    spans[-1][name] = ask()
                    edits[name].append((milliseconds(ask), answer["again_s"] * 1e3))
    rows = {"load, first answer": loads}
    rows |= {f"kernels scaled, simulated, critical path, {name}": pairs for name, pairs in edits.items()}
    figures = {
        what: {
            "skyline_ms": asdict(Times.of([pair[0] for pair in pairs])),
            "hta_ms": asdict(Times.of([pair[1] for pair in pairs])),
            "ratio": asdict(Ratio.of([theirs / ours for ours, theirs in pairs])),
        }
        for what, pairs in rows.items()
    }
    lines = [
        (
            what,
            str(Times.of([pair[0] for pair in pairs])),
            str(Times.of([pair[1] for pair in pairs])),
            str(Ratio.of([theirs / ours for ours, theirs in pairs])),
        )
        for what, pairs in rows.items()
    ]
    text = (
        f"On `{trace.name}`. HolisticTraceAnalysis {other.first['version']} analyses one step, a graph of "
        f"{other.first['nodes']} nodes (each end of an event is one). Its times for that step are in all "
        f"rows. Skyline's graph has {len(single)} tasks for that step and {len(whole)} for all steps.\n\n"
    ) + table(("ms", "Skyline", "HolisticTraceAnalysis", "ratio"), lines)
    return text, {"rows": figures, "spans": spans[:2], "hta": other.first}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds per graph (default: 15)")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="leave out larger graphs")
    parser.add_argument("--traces", type=Path, default=TRACES, help=f"folder with {REAL} and {COMPARED}")
    parser.add_argument("--hta-python", type=Path, help="an interpreter that has HolisticTraceAnalysis")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    machine = Machine.here()
    warn_when_busy(machine)
    gc.disable()  # nothing measured here leaves cycles behind
    sizes = [size for size in SIZES if size <= options.largest]
    graphs = [("made up", like_a_training_step, size) for size in sizes]
    speeds = [speed_of(name, make(size), options.rounds) for name, make, size in graphs]
    speeds += [
        speed_of("made up, lane by lane", like_a_training_step(size, sorted_by_start=False), options.rounds)
        for size in sizes
    ]
    real = options.traces / REAL
    if real.is_file():
        trace = load(real)
        speeds += [
            speed_of(f"{REAL.removesuffix('.json.gz')}, repeated", repeated_to(trace, size), options.rounds)
            for size in sizes
        ]
    asked = further(like_a_training_step(100_000), options.rounds)
    fresh = first_use()
    if options.hta_python and (options.traces / COMPARED).is_file():
        compared, figures = compare(options.hta_python, options.traces / COMPARED, options.rounds)
    else:
        compared, figures = "Not compared: no `--hta-python`, or no traces.", {}
    head = (
        "graph",
        "tasks",
        "dependencies",
        "preparation",
        "compiled",
        "as written",
        "as written / compiled",
    )
    body = "\n\n".join(
        [
            _HOW,
            "## One simulation",
            table(
                head,
                [
                    (
                        speed.graph,
                        str(speed.tasks),
                        str(speed.dependencies),
                        str(speed.preparation),
                        str(speed.compiled),
                        str(speed.as_written),
                        str(speed.ratio),
                    )
                    for speed in speeds
                ],
            ),
            "Preparation is done once per structure and shared by all graphs that differ in times.",
            "## Other questions, 100 000 tasks, compiled",
            table(("question", "ms"), [(what, str(times)) for what, times in asked.items()]),
            "Time to the first compiled answer: "
            + ", ".join(f"{seconds:.1f} s {when}" for when, seconds in fresh.items())
            + ". Until then, smaller work runs as written.",
            "## Compared with HolisticTraceAnalysis",
            compared,
        ]
    )
    content = {
        "speeds": [asdict(speed) for speed in speeds],
        "asked_100k": {what: asdict(times) for what, times in asked.items()},
        "first_use_s": fresh,
        "hta": figures,
    }
    print(write("simulator_speed", "Speed of the simulator", machine, body, content, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
