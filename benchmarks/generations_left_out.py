"""Errors of float32 kernels and models on a generation of GPUs that was not used for learning.

Each generation is left out in turn. Physics and trees are fitted on the GPUs of the other generations, and the weight
of a correction by leaving out one of these GPUs at a time. Then every measured row of the generation is predicted:
kernels in the files of new shapes, convolutions also from the training file, and whole models. Published generations
that are not in the training file are never used for fitting.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from machine import Machine
from result_file import table, write

from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.evaluate import SEEN_FILE
from skyline_predictors.learned.measurements import FILE, Sets, measured
from skyline_predictors.learned.model import Model
from skyline_predictors.learned.predictor import LearnedPredictor
from skyline_predictors.learned.train import model_for_others
from skyline_predictors.measured_folder import MeasuredFolder
from skyline_predictors.scores import Pair

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gpu_latency"
_SINGLE = ("bmm", "linear", "conv", "ln", "softmax")
_GOALS = {"kernels": 0.12, "family": 0.20, "models": 0.075, "GPU": 0.12}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=_DATA, help="folder laid out like the measured data")
    parser.add_argument("--only", action="append", help="only this generation, such as 7.5; writes no page")
    options = parser.parse_args()
    machine = Machine.here()
    data = options.data.resolve()
    sets, calls, _ = measured([data])
    folder = MeasuredFolder(data, "visible")
    kernels: list[Pair] = []
    models: list[Pair] = []
    for left_out, gpus in _groups(data).items():
        if options.only and left_out not in options.only:
            continue
        print(f"without {left_out}: {', '.join(sorted(gpus))}", file=sys.stderr, flush=True)
        predictor = LearnedPredictor(_without(left_out, sets, calls))
        kernels += _kernels(folder, predictor, gpus)
        models += [one for one in folder.models(predictor) if one.gpu in gpus]
    body = page(kernels, models)
    print(body)
    if not options.only:
        figures = {
            "kernels": [_figures(*key, pairs) for key, pairs in _kernel_groups(kernels).items()],
            "models": [_figures(*key, pairs) for key, pairs in _model_groups(models).items()],
        }
        write("generations_left_out", "Float32 on generations left out", machine, body, figures)
    return 0


def page(kernels: Sequence[Pair], models: Sequence[Pair]) -> str:
    """Both tables with their explanations."""
    head = ("family", "GPU", "rows", "mean error", "bias")
    introduction = (
        "Mean |predicted / measured - 1| on GPUs of a generation that was not used in the training. The bias "
        "is the mean with its sign. The sums leave out linear layers on the P4, because their library "
        f"changed between the measurements. Goals: kernels {_GOALS['kernels']:.0%} with no family above "
        f"{_GOALS['family']:.0%}, models "
        f"{_GOALS['models']:.1%} with no GPU above {_GOALS['GPU']:.0%}."
    )
    return "\n\n".join(
        (
            introduction,
            "## Kernels",
            table(head, [_row(*key, pairs) for key, pairs in _kernel_groups(kernels).items()]),
            "## Whole models",
            table(head, [_row(*key, pairs) for key, pairs in _model_groups(models).items()]),
        )
    )


def _groups(data: Path) -> dict[str, set[str]]:
    """The measured GPUs by generation."""
    found: dict[str, set[str]] = {}
    for name in ("P4", "P100", "V100", "T4", "A100-40", "A100-80", "H100"):
        found.setdefault(gpu_of(name, data).generation, set()).add(name)
    return found


def _without(left_out: str, sets: Sets, calls: dict[str, dict[str, float]]) -> Model:
    others = {
        family: [one for one in kernels if one.gpu.generation != left_out] for family, kernels in sets.items()
    }
    shortest: dict[str, dict[str, float]] = {}
    for operator, by_generation in calls.items():
        known = {name: us for name, us in by_generation.items() if name not in ("", left_out)}
        shortest[operator] = known | {"": round(float(np.median(list(known.values()))), 1)}
    return model_for_others(others, shortest)


def _kernels(folder: MeasuredFolder, predictor: LearnedPredictor, gpus: Iterable[str]) -> list[Pair]:
    """Rows of the files of new shapes, and convolutions of the training file, because the other files have few."""
    found = [*folder.kernels(predictor), *folder.kernels(predictor, SEEN_FILE)]
    found += [one for one in folder.kernels(predictor, FILE) if one.kind == "conv"]
    return [
        replace(one, kind=one.kind if one.kind in _SINGLE else "elementwise")
        for one in found
        if one.gpu in gpus
    ]


def _kernel_groups(pairs: Sequence[Pair]) -> dict[tuple[str, str], list[Pair]]:
    """All rows, rows by family, and by GPU of each. Sums exclude the P4's linear layers, whose library changed."""
    groups: dict[tuple[str, str], list[Pair]] = {("all", "all"): []}
    kinds = sorted({one.kind for one in pairs})
    for kind in kinds:
        groups[kind, "all"] = []
    for one in sorted(pairs, key=lambda one: (one.kind, one.gpu)):
        if (one.kind, one.gpu) != ("linear", "P4"):
            groups["all", "all"].append(one)
            groups[one.kind, "all"].append(one)
        groups.setdefault((one.kind, one.gpu), []).append(one)
    return groups


def _model_groups(pairs: Sequence[Pair]) -> dict[tuple[str, str], list[Pair]]:
    groups: dict[tuple[str, str], list[Pair]] = {("all", "all"): list(pairs)}
    for one in sorted(pairs, key=lambda one: one.gpu):
        groups.setdefault(("all", one.gpu), []).append(one)
    return groups


def _row(family: str, gpu: str, pairs: Sequence[Pair]) -> tuple[str, ...]:
    one = _figures(family, gpu, pairs)
    return (
        family,
        gpu,
        str(len(pairs)),
        f"{one['mean']:.1%}",
        f"{one['bias']:+.1%}",
    )


def _figures(family: str, gpu: str, pairs: Sequence[Pair]) -> dict[str, object]:
    errors = np.array([one.error for one in pairs])
    return {
        "family": family,
        "gpu": gpu,
        "rows": len(pairs),
        "mean": float(np.abs(errors).mean()),
        "bias": float(errors.mean()),
    }


if __name__ == "__main__":
    sys.exit(main())
