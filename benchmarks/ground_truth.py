"""The ground truth of a machine: Skyline's predictions of operators and whole models, compared with measurements.

One command measures in pieces, for a given number of minutes. It begins with operators, as ``skyline calibrate`` does.
Then it measures six models whose scripts are in ``ground_truth_models``: their iteration, five other batch sizes, and
every change that Skyline can write, singly and some together. For the changes it runs the rewritten scripts, in turns
with the unchanged script and with a second run of it (the null). It also records traces of PyTorch's profiler.
Everything is stored in ``--out`` as it is measured. A crash, a kill or the end of the time loses only the current
piece, and the same command continues. Then the predictions are compared with the measurements.

No setting of the device is changed. On a GPU the full sizes are used; ``--small`` is for CPUs and for tests.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from ground_truth_model import FOLDER, Model, Unrun
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write
from whatifs import KEEPS_MEMORY, Row
from whatifs import page as whatif_page

from skyline.calibrate.session import run_session
from skyline.errors import SkylineError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.registry import calibration_gain

_SHARE_OF_OPERATORS = 0.3
"""Share of the time for operators. The rest is for whole models."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=9.0, help="for how long (default: 9)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for all results")
    parser.add_argument("--small", action="store_true", help="models of a size for processors")
    parser.add_argument("--models", nargs="*", metavar="NAME", help="these alone (default: all six)")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each run")
    parser.add_argument("--interpreter", help="Python that runs the models (default: this one)")
    parser.add_argument("--no-traces", action="store_true", help="record none by PyTorch's profiler")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    began = time.monotonic()
    end = began + options.minutes * 60
    out: Path = options.out.resolve()
    os.environ["SKYLINE_DATA_DIR"] = str(out)
    os.environ.update(KEEPS_MEMORY)
    machine = Machine.here()
    warn_when_busy(machine)
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    interpreter = options.interpreter or sys.executable
    session = run_session(interpreter, kind, options.minutes * _SHARE_OF_OPERATORS, progress=lambda *_: None)
    device = _device("cpu" if kind == "cpu" else session.machine.name)
    models = [
        Model(path, out / "models", small=options.small, interpreter=options.interpreter)
        for path in sorted(FOLDER.glob("*.py"))
        if not options.models or path.stem in options.models
    ]
    unrun = _measure(models, device, end, options)
    rows = [row for model in models for row in _rows(model)]
    name = f"ground_truth_{re.sub(r'[^a-z0-9]+', '_', session.machine.slug)}"
    figures = {
        "whole_models": [asdict(one) | {"error": one.error} for one in unrun],
        "changes": [
            asdict(row) | {"valid": row.valid, "error": row.error, "holds": row.holds} for row in rows
        ],
    }
    title = f"Ground truth of {session.machine.name}"
    print(write(name, title, machine, _page(device, unrun, rows), figures, results=options.results))
    return 0


def _measure(
    models: Sequence[Model], device: GpuSpec | None, end: float, options: argparse.Namespace
) -> list[Unrun]:
    """Measure one piece of each model in turn, so that a run that ends early has pieces of all models."""
    unrun: list[Unrun] = []
    pieces = {}
    for model in models:
        if time.monotonic() > end:
            break
        try:
            if device is not None:
                unrun.append(model.unrun(device))
            pieces[model] = list(model.pieces())
        except SkylineError as failed:
            print(f"{model.name}: {failed.message}", file=sys.stderr)
    while any(pieces.values()) and time.monotonic() < end:
        for model, left in pieces.items():
            if left and time.monotonic() < end:
                try:
                    model.measure(left.pop(0), options.rounds)
                except SkylineError as failed:
                    print(f"{model.name}: {failed.message}", file=sys.stderr)
    for model in pieces:
        if time.monotonic() < end and not options.no_traces:
            model.record()
    return unrun


def _rows(model: Model) -> list[Row]:
    try:
        return model.rows()
    except SkylineError:
        return []


def _device(name: str) -> GpuSpec | None:
    try:
        return gpu_named(name)
    except SkylineError as unknown:
        print(f"{unknown.message}: nothing is predicted from shapes alone", file=sys.stderr)
        return None


def _page(device: GpuSpec | None, unrun: Sequence[Unrun], rows: Sequence[Row]) -> str:
    parts: list[str] = []
    gain = calibration_gain(device.name) if device is not None else None
    if gain is not None:
        parts.append(
            f"## Operators\n\n{gain.count} operators: median error {gain.before:.0%} before they were "
            f"measured, {gain.after:.0%} if each is predicted from the others."
        )
    if unrun:
        head = ["model", "asked of", "told, ms", "took, ms", "error", "inside"]
        lines = [
            [
                one.model,
                one.predictor,
                f"{one.told_ms:.2f} [{one.low_ms:.2f}, {one.high_ms:.2f}]",
                f"{one.took_ms:.2f}",
                f"{one.error:+.0%}",
                "yes" if one.low_ms <= one.took_ms <= one.high_ms else "no",
            ]
            for one in unrun
        ]
        middle = statistics.median(abs(one.error) for one in unrun)
        parts.append(
            f"## Whole models, from shapes alone\n\n{table(head, lines)}\n\nMedian error {middle:.0%}. No model was "
            "run for these figures; the operators above were measured."
        )
    if rows:
        parts.append(f"## Changes, from the profile of the unchanged script\n\n{whatif_page(rows)}")
    return "\n\n".join(parts) or "Nothing was measured in the given time."


if __name__ == "__main__":
    sys.exit(main())
