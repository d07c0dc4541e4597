"""Cost by size, as curves with their exponents: 1 is linear, 2 is quadratic.

Measured are tasks of a graph (one simulation, and its memory), lines of a script and modules that it imports (the
search for its batch size and its training loop), and operators of an iteration (recording it and reading the recording,
in full and by samples; the time includes the iteration itself). Times are processor time, with each size in its own
process. The exponent is the slope between the two largest sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

from skyline.interval import median

_LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Point:
    """The cost at one size: processor time of the work, and peak memory of the process."""

    size: int
    processor_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Curve:
    """The costs of one kind of work at each size, with its name."""

    name: str
    points: tuple[Point, ...]

    @property
    def exponent(self) -> float:
        """The slope of the last segment in logarithms. Not a number with fewer than two sizes."""
        if len(self.points) < 2:
            return math.nan
        before, after = self.points[-2:]
        return math.log(after.processor_s / before.processor_s) / math.log(after.size / before.size)


@dataclass(frozen=True, slots=True)
class Kind:
    """Work of any size. ``prepare`` returns the function to time. ``unit`` names the unit of sizes."""

    unit: str
    sizes: tuple[int, ...]
    prepare: Callable[[int, Path], Callable[[], object]]
    turns: int = 3


def simulating(tasks: int, folder: Path) -> Callable[[], object]:
    """One simulation of a prepared graph, compiled if numba is installed."""
    from importlib.util import find_spec

    from simulator_graphs import like_a_training_step

    from skyline.compiled import Way, run_loops
    from skyline.simulate.engine import simulate

    way = Way.COMPILED if find_spec("numba") else Way.AS_WRITTEN
    graph = like_a_training_step(tasks)

    def work() -> object:
        with run_loops(way):
            return simulate(graph)

    work()
    return work


def searching_lines(lines: int, folder: Path) -> Callable[[], object]:
    """The search for the batch size and the training loop in a script of ``lines`` lines."""
    from server_latency import script

    return _search(folder, script(lines))


def searching_modules(modules: int, folder: Path) -> Callable[[], object]:
    """The same search in a script with a chain of ``modules`` imported modules, the last of which sets the size."""
    from server_latency import script

    for number in range(modules):
        following = f"from part_{number + 1} import *\n" if number + 1 < modules else "batch_size = 32\n"
        (folder / f"part_{number}.py").write_text(f"{following}\ndef layer_{number}(x):\n    return x\n")
    text = script(200).replace("batch_size=32", "batch_size=batch_size")
    return _search(folder, f"from part_0 import *\n{text}")


def _search(folder: Path, text: str) -> Callable[[], object]:
    from skyline.capture.request import CaptureRequest
    from skyline.capture.script_launcher import ScriptLauncher
    from skyline.source.training_loop import find

    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")

    def work() -> object:
        launcher = ScriptLauncher(CaptureRequest(script=path))
        return launcher.find_knobs(), find(launcher.text)

    return work


def _chain(operators: int) -> Callable[[], None]:
    import torch

    weight = torch.nn.Parameter(torch.ones(8))

    def iteration() -> None:
        x = weight
        for _ in range(operators // 3):
            x = x * 0.999 + 0.001
        weight.grad = None
        x.sum().backward()

    return iteration


def recording(operators: int, folder: Path) -> Callable[[], object]:
    """Recording an iteration of ``operators`` operators in full (a third of them backward), and reading it."""
    from skyline.capture.child.recording.line_marker import LineMarker
    from skyline.capture.child.recording.operator_lines import OperatorLines
    from skyline.capture.child.recording.recorder import Recorder

    iteration = _chain(operators)

    def work() -> object:
        recorder = Recorder("cpu", 1, LineMarker(), OperatorLines())
        recorder.start()
        iteration()
        recorder.mark()
        recorder.stop()
        return recorder.read(None, {})

    iteration()
    return work


def sampling(operators: int, folder: Path) -> Callable[[], object]:
    """Recording the same iteration by samples of the thread."""
    from skyline.capture.child.devices.in_use import DevicesInUse
    from skyline.capture.child.recording.sampled import SampledRecording

    iteration = _chain(operators)

    def work() -> object:
        recording = SampledRecording(DevicesInUse(), lambda: None, None, 0)
        recording.start()
        iteration()
        recording.mark()
        recording.stop()
        return recording.read(None)

    iteration()
    return work


KINDS = {
    "simulation": Kind("tasks", (10_000, 100_000, 1_000_000, 10_000_000), simulating),
    "source lines": Kind("lines", (500, 1_000, 5_000, 20_000), searching_lines),
    "modules": Kind("modules", (10, 50, 200, 800), searching_modules),
    "recording": Kind("operators", (1_000, 5_000, 20_000, 60_000), recording, turns=1),
    "sampled recording": Kind("operators", (1_000, 5_000, 20_000, 60_000, 300_000), sampling, turns=1),
}


def measured(name: str, size: int) -> Point:
    """The median cost of the turns, measured in its own process."""
    kind = KINDS[name]
    with tempfile.TemporaryDirectory(prefix="skyline-scale-") as folder:
        work = kind.prepare(size, Path(folder))
        took: list[float] = []
        for _ in range(kind.turns):
            began = time.process_time()
            work()
            took.append(time.process_time() - began)
    return Point(size, median(took), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)


def curve(name: str, most: int) -> Curve:
    """All sizes up to ``most``. A size that fails or takes too long ends the curve, with the reason on stderr."""
    points: list[Point] = []
    for size in KINDS[name].sizes:
        if size > most:
            break
        command = [sys.executable, __file__, "--measure", name, str(size)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S, check=True)
        except subprocess.SubprocessError as error:
            print(f"{name} {size}: {error} {getattr(error, 'stderr', '')}", file=sys.stderr)
            break
        points.append(Point(**json.loads(done.stdout.splitlines()[-1])))
        print(f"{name}: {points[-1]}", file=sys.stderr, flush=True)
    return Curve(name, tuple(points))


def page(curves: Sequence[Curve]) -> str:
    """A table of all points, and the exponents."""
    rows = [
        [one.name, f"{point.size:,} {KINDS[one.name].unit}", f"{point.processor_s:.3f}",
         f"{point.peak_bytes / 1e6:.0f}", f"{one.exponent:.2f}" if point is one.points[-1] else ""]
        for one in curves
        for point in one.points
    ]  # fmt: skip
    head = ["work", "size", "processor, s", "memory of the process, MB", "exponent"]
    return f"The exponent is the slope between the two largest sizes.\n\n{table(head, rows)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs=2, metavar=("WORK", "SIZE"), help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--most", type=int, default=10_000_000, help="largest size")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(asdict(measured(options.measure[0], int(options.measure[1])))))
        return 0
    machine = Machine.here()
    warn_when_busy(machine)
    curves = [curve(name, options.most) for name in options.only]
    figures: list[dict[str, Any]] = [asdict(one) | {"exponent": one.exponent} for one in curves]
    print(write("scale", "Cost against size", machine, page(curves), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
