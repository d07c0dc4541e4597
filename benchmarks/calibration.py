"""Measures the benefit of `skyline calibrate`: iteration times of this processor predicted by shape, before and after.

Each script is traced by shape, as if this machine's processor were an absent device, so that its model is not computed.
Its iteration time is then predicted twice. The uncalibrated prediction uses the system's figures and typical shares of
them. The calibrated prediction uses the operators that were measured here. Both are compared with the time of real runs
of the script. The calibration is made first, unless ``--calibration FILE`` names one. No script is part of it.

A rule selects the scripts, so that none is chosen for its result. The rule takes the examples. From the corpus it takes
the first script of each repository, in its order, that meets three conditions, until there are six with the examples.
The script moves its model to a GPU if there is one. It computes in the same number formats there and here. It was
not used while the predictor was developed; the first two of pytorch/examples and the models of
``ground_truth_models`` were used. The rule gives ``--corpus siamese feedforward mingpt_adder``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from script_rows import add_options, is_one_of_the_corpus, rows_of_all, write_own
from whatifs import KEEPS_MEMORY, WhatIfScript

from skyline.calibrate.session import run_session
from skyline.calibrate.store import read
from skyline.capture.session import capture
from skyline.errors import SkylineError
from skyline.predict.gpus import gpu_named
from skyline.predict.predicted_times import timed
from skyline.predict.shape_tracer import ScriptTracer
from skyline_predictors.calibrated.predictor import Calibrated
from skyline_predictors.processor import Processor

BAR = 1 / 3
"""The share by which the median error must fall."""
STEADY = 0.1
"""Largest allowed relative difference between two runs of the same script."""


@dataclass(frozen=True, slots=True)
class Told:
    """A script with its measured times in two runs and its predicted times, in ms."""

    script: str
    measured_ms: tuple[float, float]
    uncalibrated_ms: float
    calibrated_ms: tuple[float, float, float]
    """Value, low end and high end."""

    @property
    def took_ms(self) -> float:
        """The mean of the two runs."""
        return statistics.mean(self.measured_ms)

    @property
    def steady(self) -> bool:
        """True if the two runs agree."""
        return abs(self.measured_ms[0] / self.measured_ms[1] - 1) <= STEADY


def told(subject: WhatIfScript, options: argparse.Namespace) -> Told:
    """Run the script twice, trace it once, and predict its time."""
    with tempfile.TemporaryDirectory() as folder:
        working = options.folder or Path(folder)
        request = replace(subject.request(working), batch_points=0)
        runs = [capture(request, progress=lambda _: None) for _ in range(2)]
        device = gpu_named("cpu")
        asked = replace(request, gpu=device.name, device="auto")
        traced = ScriptTracer(asked, device, lambda _: None).trace()
        calibrated = Calibrated((read(options.calibration),))
        before, after = timed(traced, device, Processor()), timed(traced, device, calibrated)
        assert before.prediction is not None
        assert after.prediction is not None
        said = after.prediction.iteration_ms
        first, second = (statistics.median(run.times.steps_ms) for run in runs)
        return Told(
            subject.name,
            (first, second),
            before.prediction.iteration_ms.value,
            (said.value, said.low, said.high),
        )


def own(subject: WhatIfScript, options: argparse.Namespace) -> list[Told]:
    """The row of a script that runs unchanged."""
    try:
        row = told(subject, options)
    except SkylineError as failed:
        print(f"{subject.name}: {failed.message}", file=sys.stderr)
        return []
    print("  ", *_cells(row), file=sys.stderr, flush=True)
    return [row]


def _cells(row: Told) -> list[str]:
    value, low, high = row.calibrated_ms
    return [
        row.script,
        f"{row.measured_ms[0]:.1f}, {row.measured_ms[1]:.1f}" + ("" if row.steady else " (unsteady)"),
        f"{row.uncalibrated_ms:.1f}",
        f"{row.uncalibrated_ms / row.took_ms - 1:+.0%}",
        f"{value:.1f} [{low:.1f}, {high:.1f}]",
        f"{value / row.took_ms - 1:+.0%}",
        "yes" if low <= row.took_ms <= high else "no",
    ]


def page(rows: Sequence[Told], calibration: Path) -> str:
    """The table and its summary."""
    steady = [row for row in rows if row.steady]
    machine, measured = read(calibration)
    head = ["script", "measured, ms", "uncalibrated, ms", "off", "calibrated, ms", "off", "inside"]
    parts = [table(head, [_cells(row) for row in rows])]
    parts.append(f"All {len(rows)} scripts: {_medians(rows)} (goal: {BAR:.0%}).")
    if 0 < len(steady) < len(rows):
        parts.append(
            f"The two runs of {len(rows) - len(steady)} scripts differ by more than {STEADY:.0%}. "
            f"Without these scripts ({len(steady)} left): {_medians(steady)}."
        )
    parts.append(
        f"The calibration of {machine.name} with {machine.threads} threads has {len(measured)} operators. It "
        "uses none of these scripts."
    )
    return "\n\n".join(parts)


def _medians(rows: Sequence[Told]) -> str:
    before = statistics.median(abs(row.uncalibrated_ms / row.took_ms - 1) for row in rows)
    after = statistics.median(abs(row.calibrated_ms[0] / row.took_ms - 1) for row in rows)
    return f"median error {before:.1%} uncalibrated, {after:.1%} calibrated, {1 - after / before:.0%} less"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long to calibrate")
    parser.add_argument("--calibration", type=Path, default=os.environ.get("SKYLINE_CALIBRATION"))
    parser.add_argument("--rounds", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    os.environ.update(KEEPS_MEMORY)
    machine = Machine.here()
    warn_when_busy(machine)
    if is_one_of_the_corpus(options):
        options.calibration = Path(options.calibration)
        write_own(partial(own, options=options), options)
        return 0
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if options.calibration is None:
            os.environ["SKYLINE_DATA_DIR"] = str(scratch)
            interpreter = options.interpreter or sys.executable
            options.calibration = run_session(
                interpreter, "cpu", options.minutes, progress=lambda *_: None
            ).path
        options.calibration = Path(options.calibration).resolve()
        # Passed to the processes in which public scripts are measured.
        os.environ["SKYLINE_CALIBRATION"] = str(options.calibration)
        rows = rows_of_all(partial(own, options=options), options, program=__file__, kind=Told)
        if not rows:
            return 1
        text = page(rows, options.calibration)
    title = "Iteration times from shapes alone on this processor, uncalibrated and calibrated"
    print(write("calibration", title, machine, text, [asdict(row) for row in rows], results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
