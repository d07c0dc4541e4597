"""The error of predicting convolutions from another GPU's measurement of the same call: a floor for shape predictors.

No model of a GPU knows as much about a call as its measured time on another GPU. Here each call is predicted by that
time, multiplied by one factor for the pair of GPUs. The factor is the median ratio over one half of the shared shapes;
the other half is scored, in both ways. A predictor that sees only shapes is not expected to be better.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from machine import Machine
from result_file import table, write

from skyline_predictors.evaluate import SEEN_FILE
from skyline_predictors.learned.measurements import FILE
from skyline_predictors.operator_graph import read_rows

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gpu_latency"
_LENGTHS_MS = (0.0, 0.2, 0.5, 2.0, float("inf"))
_FILES = (FILE, "kernels_test_visible.csv.gz", SEEN_FILE)

_SHAPE = ("b", "cin", "cout", "ksize", "isize")
Shape = tuple[int, int, int, int, int]
"""Batch, input channels, output channels, kernel and image size."""
Times = Mapping[str, Mapping[Shape, float]]


@dataclass(frozen=True, slots=True)
class Floor:
    """Mean error of times on ``source`` as predictions for ``gpu``, over all shared shapes and by length in ms."""

    gpu: str
    source: str
    shapes: int
    error: float
    by_length: tuple[float, ...]


def times_of(data: Path) -> Times:
    """Times in ms by GPU and shape."""
    found: dict[str, dict[Shape, float]] = defaultdict(dict)
    for row in (row for name in _FILES for row in read_rows(data / name)):
        if row["op"] == "conv":
            batch, inputs, outputs, side, size = (int(row[name]) for name in _SHAPE)
            found[row["gpu"]][batch, inputs, outputs, side, size] = float(row["latency_ms"])
    return found


def floor(times: Times, gpu: str, source: str) -> Floor:
    """The errors of one GPU's times as predictions of another's."""
    shapes = sorted(times[gpu].keys() & times[source].keys())
    there, here = (np.array([times[name][shape] for shape in shapes]) for name in (source, gpu))
    halves = np.random.default_rng(0).permutation(len(shapes)) % 2
    errors = np.zeros(len(shapes))
    for half in (0, 1):
        scored = halves == half
        factor = np.median(here[~scored] / there[~scored])
        errors[scored] = np.abs(factor * there[scored] / here[scored] - 1)
    ends = pairwise(_LENGTHS_MS)
    lengths = tuple(float(errors[(here >= low) & (here < high)].mean()) for low, high in ends)
    return Floor(gpu, source, len(shapes), float(errors.mean()), lengths)


def page(floors: Sequence[Floor], times: Times) -> str:
    """The best source for each GPU."""
    spans = ("under 0.2 ms", "0.2 to 0.5 ms", "0.5 to 2 ms", "over 2 ms")
    best = [min((one for one in floors if one.gpu == gpu), key=lambda one: one.error) for gpu in times]
    rows = [
        [
            one.gpu,
            one.source,
            f"{one.shapes:,}",
            f"{one.error:.1%}",
            *(f"{each:.0%}" for each in one.by_length),
        ]
        for one in best
    ]
    said = (
        "Mean |predicted / measured - 1| of convolutions in float32. The prediction is the time of the same "
        "call on another GPU, multiplied by one factor. Each GPU has its best source."
    )
    listed = table(["GPU", "predicted from", "shapes", "mean error", *spans], rows)
    return f"{said}\n\n{listed}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=_DATA, help="folder laid out like the measured data")
    options = parser.parse_args()
    times = times_of(options.data.resolve())
    floors = [floor(times, gpu, source) for gpu in times for source in times if source != gpu]
    body = page(floors, times)
    print(body)
    write(
        "convolution_floor",
        "The floor of convolutions",
        Machine.here(),
        body,
        [asdict(one) for one in floors],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
