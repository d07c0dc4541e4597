"""Curves of ``skyline sweep`` on this CPU: predicted first (``--gpu cpu``), then measured in turns.

A few values run for the answer (``--runs``). Errors and shapes are computed on the other values, which were predicted
before they were measured. Each curve has three figures: the error of a time, the error of the shape of the curve (both
curves divided by their own geometric mean), and the agreement of steps and knee. Each curve is also predicted only from
shapes (``--runs 0``). Three baselines need no prediction: "line" is straight in logarithms between the same runs, "no
change" has one time for all values, and "arithmetic" has times in proportion to the counted FLOP. Values that ran are
measured again: the difference is the noise of the machine, which limits every answer.

A curve is given as ``"PATH [ARGUMENTS] :: NAME=VALUES"``. The default is the curves of two examples. ``--only`` selects
some of them by a part of their name, and keeps the other curves of the result file.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec
import numpy as np
from long_examples import long_examples
from machine import Machine, warn_when_busy
from result_file import RESULTS, table, write

CURVES = {
    "small_gpt.py": ("n_embd=32:256:32", "block_size=32:256:32", "n_layer=1:8:1"),
    "image_classifier.py": ("width=8:40:8",),
}
NAME = "sweep_curves"
_MOST_S = 1800


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One value: the predicted and the measured time with their ranges, and the counted arithmetic.

    ``provenance`` is the basis of the predicted time, ``shapes_ms`` is the time predicted only from shapes.
    """

    value: float
    predicted_ms: float
    low_ms: float
    high_ms: float
    measured_ms: float
    spread: float
    flops: float
    provenance: str
    shapes_ms: float

    @property
    def error(self) -> float:
        """The predicted over the measured time, minus one."""
        return self.predicted_ms / self.measured_ms - 1


@dataclass(frozen=True, slots=True)
class Curve:
    """A script with one varied setting. ``predicted`` and ``measured`` are the marks of each curve."""

    name: str
    points: tuple[CurvePoint, ...]
    predicted: tuple[str, ...]
    measured: tuple[str, ...]
    failed: int

    @property
    def answered(self) -> list[CurvePoint]:
        """The points that did not run for the answer."""
        return [one for one in self.points if one.provenance != "measured"]

    @property
    def inside(self) -> int:
        """The number of measured times inside the predicted range, among points that did not run for the answer."""
        return sum(one.low_ms <= one.measured_ms <= one.high_ms for one in self.answered)

    @property
    def from_shapes(self) -> float:
        """The median error of the times predicted only from shapes, at the same points."""
        return median(abs(one.shapes_ms / one.measured_ms - 1) for one in self.answered)

    @property
    def on_the_line(self) -> float | None:
        """The median error of straight lines between the runs, in logarithms. None without runs."""
        ran = [one for one in self.points if one.provenance == "measured"]
        if not ran:
            return None
        guessed = np.exp(
            np.interp(
                [log(one.value) for one in self.answered],
                [log(one.value) for one in ran],
                [log(one.predicted_ms) for one in ran],
            )
        )
        return median(
            abs(guess / one.measured_ms - 1)
            for guess, one in zip(guessed.tolist(), self.answered, strict=True)
        )

    @property
    def again(self) -> float | None:
        """The median difference of two measurements of the values that ran. None without runs."""
        apart = [abs(one.error) for one in self.points if one.provenance == "measured"]
        return median(apart) if apart else None

    def shape_error(self, guessed: Callable[[CurvePoint], float]) -> float:
        """The median deviation of a guessed shape from the measured one, at the points that did not run."""
        own, true = _shape(map(guessed, self.answered)), _shape(one.measured_ms for one in self.answered)
        return median(abs(one / other - 1) for one, other in zip(own, true, strict=True))


def _shape(values: Iterable[float]) -> list[float]:
    logs = [log(value) for value in values]
    return [exp(one - fmean(logs)) for one in logs]


def swept(command: Sequence[str], vary: str, *options: str) -> dict[str, Any]:
    """The report of one sweep."""
    script, *arguments = command
    words = [
        sys.executable,
        "-m",
        "skyline",
        "sweep",
        "--vary",
        vary,
        "--json",
        "-",
        *options,
        script,
        *arguments,
    ]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=_MOST_S, check=False)
    if ran.returncode:
        raise SystemExit(f"{shlex.join(words)}\n{ran.stderr}")
    return json.loads(ran.stdout)


def curve(command: Sequence[str], vary: str, rounds: int, runs: int) -> Curve:
    """One curve. The answer is made before the measurement."""
    shapes = _series(swept(command, vary, "--gpu", "cpu", "--runs", "0", "--quiet"))
    words = ("--gpu", "cpu", "--runs", str(runs), "--rounds", str(rounds), "--quiet")
    predicted = swept(command, vary, *words)
    measured = swept(command, vary, "--rounds", str(rounds), "--quiet")
    said, seen = _series(predicted), _series(measured)
    points = [
        CurvePoint(
            value,
            said[value]["iteration_ms"]["value"],
            said[value]["iteration_ms"]["low"],
            said[value]["iteration_ms"]["high"],
            one["iteration_ms"]["value"],
            one["iteration_ms"]["high"] / one["iteration_ms"]["low"] - 1,
            one["flops"] or 0,
            said[value]["provenance"],
            shapes[value]["iteration_ms"]["value"],
        )
        for value, one in seen.items()
        if value in said and value in shapes
    ]
    if all(one.provenance == "measured" for one in points):
        raise SystemExit(f"{vary}: each value ran for the answer. Take more values, or fewer --runs.")
    failed = len(predicted["failed"]) + len(measured["failed"])
    return Curve(_name(command, vary), tuple(points), _marks(predicted), _marks(measured), failed)


def _series(report: dict[str, Any]) -> dict[float, dict[str, Any]]:
    return {one["values"][0]: one for one in report["series"][0]["points"]}


def _marks(report: dict[str, Any]) -> tuple[str, ...]:
    series = report["series"][0]
    found = [f"step at {one['after']} ({one['change']:+.0%})" for one in series["steps"]]
    if series["knee"]:
        found.append(f"knee at {series['knee']['value']}")
    return tuple(found)


def body(curves: Sequence[Curve]) -> str:
    """The body of the page: a row for each curve, and a table of each curve's points."""
    rows = [
        [
            one.name,
            f"{len(one.points) - len(one.answered)} of {len(one.points)}",
            f"{median(abs(point.error) for point in one.answered):.1%}",
            f"{one.inside} of {len(one.answered)}",
            f"{one.from_shapes:.1%}",
            "" if one.on_the_line is None else f"{one.on_the_line:.1%}",
            "" if one.again is None else f"{one.again:.1%}",
            f"{one.shape_error(lambda point: point.predicted_ms):.1%}",
            f"{one.shape_error(lambda point: max(1.0, point.flops)):.1%}",
            f"{one.shape_error(lambda _: 1.0):.1%}",
            "; ".join(one.predicted) or "none",
            "; ".join(one.measured) or "none",
        ]
        for one in curves
    ]
    head = [
        "curve",
        "ran",
        "median error of the others",
        "measured within the range",
        "from shapes alone",
        "line between the runs",
        "runs measured again",
        "of the shape",
        "shape by arithmetic",
        "shape by no change",
        "predicted marks",
        "measured marks",
    ]
    parts = [table(head, rows)]
    for one in curves:
        points = [
            [
                f"{point.value:g}",
                f"{point.predicted_ms:.2f}",
                f"{point.low_ms:.2f} to {point.high_ms:.2f}",
                f"{point.measured_ms:.2f}",
                f"{point.spread:.1%}",
                f"{point.error:+.1%}" if point.provenance != "measured" else "ran",
                f"{point.shapes_ms:.2f}",
            ]
            for point in one.points
        ]
        titles = [
            "value",
            "answered, ms",
            "range",
            "measured, ms",
            "high over low",
            "error",
            "from shapes alone, ms",
        ]
        parts.append(f"## {one.name}\n\n{table(titles, points)}")
        if one.failed:
            parts.append(f"{one.failed} points failed and are left out.")
    parts.append(
        "The predicted times are those of `skyline sweep --gpu cpu`, made before the measurement. Values "
        "that ran for the prediction are not part of the errors. They are measured again to show the noise "
        "of the machine. The shape is the curve of the other values divided by its geometric mean; its error "
        "is the median over these values. The line is straight between the runs, in logarithms."
    )
    return "\n\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", nargs="*", help='as in "train.py --epochs 3 :: width=16:64:16"')
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="only curves with one of these in their name"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of a measured point")
    parser.add_argument("--runs", type=int, default=3, help="values that run for the answer")
    # The prediction is for the whole processor.
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    machine = Machine.here()
    warn_when_busy(machine)
    with tempfile.TemporaryDirectory() as folder:
        wanted = [
            (shlex.split(one.partition("::")[0]), one.partition("::")[2].strip()) for one in options.curves
        ]
        if not wanted:
            paths = {Path(shlex.split(one)[0]).name: shlex.split(one) for one in long_examples(Path(folder))}
            wanted = [(paths[name], vary) for name, varied in CURVES.items() for vary in varied]
        chosen = [
            one for one in wanted if not options.only or any(part in _name(*one) for part in options.only)
        ]
        if not chosen:
            parser.error(f"--only {' '.join(options.only)}: no curve has this in its name")
        curves = kept(options.results) if options.only else []
        for command, vary in chosen:
            found = curve(command, vary, options.rounds, options.runs)
            curves = [one for one in curves if one.name != found.name] + [found]
            errors = [abs(one.error) for one in found.answered]
            print(f"{found.name}: {median(errors):.1%}", file=sys.stderr, flush=True)
            # Write after each curve, so that a stopped run keeps its curves.
            figures = [asdict(one) for one in curves]
            title = "Curves over a setting, predicted and measured"
            write(NAME, title, machine, body(curves), figures, results=options.results)
    print(body(curves))
    return 0


def _name(command: Sequence[str], vary: str) -> str:
    return f"{Path(command[0]).name} {vary}"


def kept(results: Path) -> list[Curve]:
    """The curves of the result file, without curves of earlier versions, which had no runs."""
    path = results / f"{NAME}.json"
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"] if path.is_file() else []
    return [msgspec.convert(one, Curve) for one in figures if "shapes_ms" in one["points"][0]]


if __name__ == "__main__":
    sys.exit(main())
