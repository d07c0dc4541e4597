"""Measures the time of a prediction for a GPU: tracing a training script by shape, and the times of its operators.

Each script of ``tracing_models`` is traced in a new process and predicted for the H100. Both processor time and wall
time are given, because the machine may be shared. The imports of the script itself, measured in separate processes,
are subtracted. GPT-2 with 12, 24 and 48 blocks shows the growth with the number of operators.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

MODELS = Path(__file__).parent / "tracing_models"
GPU = "h100"
CASES = (("resnet50", ()), ("gpt2", ()), ("gpt2", ("24",)), ("gpt2", ("48",)), ("llama", ()))
GOALS_S = {"resnet50": 3.0, "gpt2": 3.0, "llama": 20.0}
"""Goals of the scripts without arguments, in s beyond the imports."""
_IMPORTS = "import torch, torch.nn"


@dataclass(frozen=True, slots=True)
class Run:
    """One prediction in a new process, in s of processor time unless the name says otherwise.

    ``child_s`` is the script's process from start to end, ``assembling_s`` the work on its records,
    ``predicting_s`` the prediction of operator times, ``loading_s`` loading Skyline and its predictors.
    """

    wall_s: float
    child_s: float
    assembling_s: float
    predicting_s: float
    loading_s: float
    peak_bytes: int
    operators: int
    kernels: int


class Descendants:
    """A context that observes all descendants of this process."""

    def __init__(self) -> None:
        self._used: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    @property
    def processor_s(self) -> float:
        """Processor time of all descendants, in s."""
        return sum(self._used.values())

    def __enter__(self) -> Descendants:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._over.wait(0.02):
            for process in own.children(recursive=True):
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    self._used[process.pid] = times.user + times.system
                    self.peak_bytes = max(self.peak_bytes, process.memory_info().rss)


def run_once(script: Path, arguments: tuple[str, ...]) -> Run:
    """Trace and predict in this process, which must be new."""
    began = time.process_time()
    from skyline.capture.request import CaptureRequest
    from skyline.predict.gpus import gpu_named
    from skyline.predict.predicted_times import timed
    from skyline.predict.registry import predictor_for
    from skyline.predict.shape_tracer import ScriptTracer
    from skyline.trace.record import RecordKind

    spec = gpu_named(GPU)
    predictor = predictor_for(spec)
    loading_s = time.process_time() - began
    request = CaptureRequest(script, arguments=arguments, gpu=GPU, batch_points=0)
    wall, before = time.perf_counter(), time.thread_time()
    with Descendants() as descendants:
        traced = ScriptTracer(request, spec, lambda _: None).trace()
    assembling_s = time.thread_time() - before
    before = time.thread_time()
    timed(traced, spec, predictor)
    predicting_s = time.thread_time() - before
    wall_s = time.perf_counter() - wall
    kinds = [record.kind for record in traced.trace.records]
    return Run(
        wall_s,
        descendants.processor_s,
        assembling_s,
        predicting_s,
        loading_s,
        descendants.peak_bytes,
        sum(kind in (RecordKind.OPERATOR, RecordKind.KERNEL, RecordKind.COPY) for kind in kinds),
        kinds.count(RecordKind.KERNEL),
    )


def imports_s() -> float:
    """Processor time of a process that only imports PyTorch, in s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", _IMPORTS], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(name: str, arguments: tuple[str, ...], rounds: int) -> list[Run]:
    """Several runs, each in a new process."""
    command = [sys.executable, __file__, "--once", str(MODELS / f"{name}.py"), *arguments]
    found = [subprocess.check_output(command, text=True) for _ in range(rounds)]
    return [Run(**json.loads(one.splitlines()[-1])) for one in found]


def page(rows: dict[str, list[Run]], imports: list[float]) -> str:
    """The table, with the goals."""
    imported = statistics.median(imports)
    cells: list[list[str]] = []
    for name, runs in rows.items():
        beyond = [one.child_s + one.assembling_s + one.predicting_s - imported for one in runs]
        goal = GOALS_S.get(name)
        cells.append(
            [
                name,
                str(runs[0].kernels),
                f"{statistics.median(beyond):.2f} ({min(beyond):.2f}–{max(beyond):.2f})",
                *(
                    f"{statistics.median(values):.2f}"
                    for values in (
                        [one.child_s - imported for one in runs],
                        [one.assembling_s for one in runs],
                        [one.predicting_s for one in runs],
                    )
                ),
                f"{1e3 * statistics.median(beyond) / runs[0].operators:.2f}",
                f"{max(one.peak_bytes for one in runs) / 1e9:.2f}",
                "" if goal is None else f"{goal:g}",
                f"{statistics.median(one.wall_s for one in runs):.2f}",
            ]
        )
    head = [
        "script", "kernels", "processor s", "traced", "assembled", "predicted", "ms per operator",
        "peak GB", "goal s", "wall s, with imports",
    ]  # fmt: skip
    loading = statistics.median(one.loading_s for runs in rows.values() for one in runs)
    return (
        f"{table(head, cells)}\n\nMedians of {len(next(iter(rows.values())))} runs, with the minimum and the "
        "maximum. "
        f"Subtracted from the processor time: {imported:.2f} s to import PyTorch. "
        f"Not included: {loading:.2f} s to import Skyline and its predictors, once per process. "
        "The peak is that of the script's process, and includes the import of PyTorch."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="one script, by name")
    parser.add_argument("--once", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    if options.once:
        script, *arguments = options.once
        print(json.dumps(asdict(run_once(Path(script), tuple(arguments)))))
        return 0
    os.environ["OMP_NUM_THREADS"] = "1"
    machine = Machine.here()
    warn_when_busy(machine)
    imports = [imports_s() for _ in range(max(3, options.rounds))]
    chosen = [case for case in CASES if options.only in (None, case[0])]
    rows = {" ".join((name, *rest)): measured(name, rest, options.rounds) for name, rest in chosen}
    figures = {
        "imports_s": imports,
        "runs": {name: [asdict(one) for one in runs] for name, runs in rows.items()},
    }
    title = "Time of a prediction for a GPU"
    print(write("tracing_speed", title, machine, page(rows, imports), figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
