"""Accuracy of the roofline predictor on kernels that were not used in its calibration, by class and by GPU.

It is compared with the roofline of the data sheet: arithmetic at the stated peak or bytes at the stated bandwidth,
whichever takes longer. The measurements include the launch of the kernel, so both get the same allowance for it.
Kernels under 100 µs, which are mostly launch, are left out. H100 and A100-80GB were not used in the calibration; for
the other GPUs, other shapes were used.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from gpu_latency import DATA, SEEN, UNSEEN, KernelLatency, measured
from machine import Machine
from result_file import RESULTS, table, write
from whole_models import Model, models

from skyline_predictors.constants import constants
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.roofline import Roofline

_LEAST_US = 100.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One kernel or model: predicted over measured time by both, and if the interval contains the measured time."""

    ratio: float
    data_sheet_ratio: float
    covered: bool


def outcome(row: KernelLatency, roofline: Roofline) -> Outcome:
    beside = constants().overhead_us[row.kind]
    kernel = roofline.kernel_us(row.kind, row.shape, "float32", row.gpu)
    spread = roofline.spread(row.kind, row.gpu, measured=True)
    low, high = kernel * spread.low + beside, kernel * spread.high + beside
    sheet = max(
        row.shape.flops / (row.gpu.tflops_fp32 * 1e6), row.shape.bytes_moved / (row.gpu.bandwidth_gb_s * 1e3)
    )
    return Outcome(
        (kernel + beside) / row.time_us, (sheet + beside) / row.time_us, low <= row.time_us <= high
    )


def of_model(model: Model, roofline: Roofline) -> Outcome:
    """The sum of a whole model's operators. Its interval adds the groups of operators in squares, as in a profile."""
    value = sheet = 0.0
    below: dict[str, float] = defaultdict(float)
    above: dict[str, float] = defaultdict(float)
    times = roofline.predict([shape for shape, _ in model.operators], model.gpu)
    for (shape, count), time in zip(model.operators, times, strict=True):
        value += count * time.time_us.value
        below[time.group] += count * (time.time_us.value - time.time_us.low)
        above[time.group] += count * (time.time_us.high - time.time_us.value)
        sheet += count * max(
            shape.flops / (model.gpu.tflops_fp32 * 1e6), shape.bytes_moved / (model.gpu.bandwidth_gb_s * 1e3)
        )
    low, high = value - math.hypot(*below.values()), value + math.hypot(*above.values())
    return Outcome(value / model.time_us, sheet / model.time_us, low <= model.time_us <= high)


def summary(outcomes: list[Outcome]) -> list[str]:
    errors = [abs(one.ratio - 1) for one in outcomes]
    plain = [abs(one.data_sheet_ratio - 1) for one in outcomes]
    return [
        str(len(outcomes)),
        f"{statistics.fmean(errors):.1%}",
        f"{statistics.median(errors):.1%}",
        f"{statistics.median(one.ratio for one in outcomes) - 1:+.1%}",
        f"{statistics.fmean(plain):.1%}",
        f"{statistics.median(plain):.1%}",
        f"{statistics.fmean(one.covered for one in outcomes):.0%}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the measured kernels")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the result files")
    options = parser.parse_args()
    roofline = Roofline()
    figures: list[dict[str, object]] = []
    tables: list[str] = []
    head = ["class", "GPU", "rows", "mean", "median", "bias", "data sheet mean", "median", "inside interval"]
    for name, title in (
        (UNSEEN, "GPUs left out of calibration"),
        (SEEN, "GPUs of the calibration, other shapes"),
    ):
        groups: dict[tuple[OperatorClass, str], list[Outcome]] = defaultdict(list)
        for row in measured(options.data, name):
            if row.time_us >= _LEAST_US:
                # The library that computed the P4's linear layers changed between the two sets.
                gpu = "P4, linear" if (row.op, row.gpu.name) == ("linear", "P4") else row.gpu.name
                groups[row.kind, gpu].append(outcome(row, roofline))
        rows = [[kind.value, gpu, *summary(groups[kind, gpu])] for kind, gpu in sorted(groups)]
        everything = [one for (_, gpu), group in groups.items() if "," not in gpu for one in group]
        rows.append(["all", "all but P4 linear" if name == SEEN else "all", *summary(everything)])
        tables.append(f"## {title}\n\n{table(head, rows)}")
        figures += [
            dict(zip(["set", *head[:7], "sheet median", "inside"], [name, *row], strict=True)) for row in rows
        ]
    by_gpu: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for model in models(options.data):
        by_gpu[model.mode, model.gpu.name].append(of_model(model, roofline))
    rows = [[mode, gpu, *summary(by_gpu[mode, gpu])] for mode, gpu in sorted(by_gpu)]
    rows.append(["all", "all", *summary([one for group in by_gpu.values() for one in group])])
    tables.append(f"## Whole models\n\n{table(['mode', *head[1:]], rows)}")
    introduction = (
        "Errors are |predicted / measured - 1|. `inside interval` is the share of measured times in the "
        "predicted interval; the goal is nine in ten. A GPU whose generation was not used in the calibration "
        "has the wider interval of GPUs left out. All figures are for float32 without TF32, and do not apply "
        "to 16-bit formats or fused attention. Whole models are BERT, GPT-2, GPT-3, OPT and Switch "
        "Transformer, as sums of their operators without optimizer and data loading."
    )
    body = "\n\n".join((introduction, *tables))
    title = "The roofline predictor compared with measured kernels"
    print(write("roofline_accuracy", title, Machine.here(), body, figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
