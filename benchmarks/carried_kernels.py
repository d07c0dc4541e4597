"""Kernel times measured on one GPU and converted to another GPU on which the same kernels were measured.

``skyline whatif --gpu`` does this with the kernels of a trace. Four ways are compared. They use different facts about
a kernel:

- *bandwidth*: the ratio of the bandwidths, as Habitat's code does for most kernels;
- *clocks*: wave scaling with clocks and multiprocessors, as in Habitat's paper, with the kernel's own intensity;
- *peaks*: wave scaling with the peaks of the data sheets instead of clocks;
- *unknown size*: like *peaks*, but with a typical intensity of the kernel's class and its range, as for traces.

No pair of the first table was used in any calibration. Kernels of less than 200 µs on either GPU are left out. The
time of a measurement outside the kernel is subtracted before the conversion and added again afterwards.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_latency import DATA, SEEN, UNSEEN, KernelLatency, measured
from machine import Machine
from result_file import RESULTS, table, write

from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.wave_scaling import Rates, carried_factor, share_of_memory
from skyline.whatif.catalogue.host.gpu import factor_of
from skyline_predictors.operator_class import OperatorClass

_LEAST_US = 200.0
_HEAVY = (OperatorClass.MATRIX, OperatorClass.CONVOLUTION)
_BESIDE_US = {
    OperatorClass.MATRIX: 45.9,
    OperatorClass.CONVOLUTION: 60.0,
    OperatorClass.ELEMENTWISE: 18.0,
    OperatorClass.SOFTMAX: 45.7,
    OperatorClass.NORMALIZATION: 46.2,
}
"""Time of a measurement outside the kernel in µs, fitted on the training kernels of the same data."""
WAYS = ("bandwidth", "clocks", "peaks", "unknown size")


@dataclass(frozen=True, slots=True)
class Pair:
    """One kernel on two GPUs: predicted over measured time on the second GPU by each way, and if it is in the range."""

    kind: OperatorClass
    ratios: dict[str, float]
    held: bool


def sheet(gpu: GpuSpec) -> Rates:
    return Rates(gpu.bandwidth_gb_s, gpu.tflops_fp32, gpu.multiprocessors)


def clocks(gpu: GpuSpec) -> Rates:
    """Rates that assume equal work per clock for all multiprocessors of all generations."""
    return Rates(gpu.bandwidth_gb_s, gpu.clock_mhz * gpu.multiprocessors / 1e4, gpu.multiprocessors)


def pairs(here: Sequence[KernelLatency], there: Sequence[KernelLatency]) -> list[Pair]:
    first, second = here[0].gpu, there[0].gpu
    found: list[Pair] = []
    for own, other in zip(here, there, strict=True):
        beside = min(_BESIDE_US[own.kind], 0.5 * own.time_us)
        intensity = own.shape.flops / own.shape.bytes_moved
        share = share_of_memory(intensity, sheet(second).ridge)
        unknown = [factor_of("", first, second, own.kind in _HEAVY, end) for end in range(3)]
        factors = {
            "bandwidth": first.bandwidth_gb_s / second.bandwidth_gb_s,
            "clocks": carried_factor(clocks(first), clocks(second), share),
            "peaks": carried_factor(sheet(first), sheet(second), share),
            "unknown size": unknown[0],
        }
        kernel = own.time_us - beside
        low, high = (kernel * one + beside for one in unknown[1:])
        found.append(
            Pair(
                own.kind,
                {way: (kernel * one + beside) / other.time_us for way, one in factors.items()},
                low <= other.time_us <= high,
            )
        )
    return found


def common(
    rows: Sequence[KernelLatency], source: str, destination: str
) -> tuple[list[KernelLatency], list[KernelLatency]]:
    """The kernels that were measured on both GPUs, in the same order."""
    by_gpu: dict[str, dict[object, KernelLatency]] = defaultdict(dict)
    for row in rows:
        by_gpu[row.gpu.name][row.op, row.shape.inputs] = row
    both = [key for key in by_gpu[source] if key in by_gpu[destination]]
    kept = [
        key for key in both if min(by_gpu[source][key].time_us, by_gpu[destination][key].time_us) >= _LEAST_US
    ]
    return [by_gpu[source][key] for key in kept], [by_gpu[destination][key] for key in kept]


def line(name: str, kind: str, found: Sequence[Pair]) -> list[str]:
    def error(way: str) -> str:
        return f"{statistics.fmean(abs(one.ratios[way] - 1) for one in found):.1%}"

    bias = statistics.median(math.log(one.ratios["unknown size"]) for one in found)
    held = statistics.fmean(one.held for one in found)
    return [name, kind, str(len(found)), *map(error, WAYS), f"{math.expm1(bias):+.0%}", f"{held:.0%}"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the measured kernels")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    tables: list[str] = []
    figures: list[dict[str, object]] = []
    head = ["from → to", "class", "kernels", *WAYS, "bias, unknown size", "range holds"]
    for name, title in (
        (UNSEEN, "GPUs left out of calibration"),
        (SEEN, "GPUs of the calibration, other shapes"),
    ):
        rows = [row for row in measured(options.data, name) if (row.op, row.gpu.name) != ("linear", "P4")]
        names = sorted({row.gpu.name for row in rows})
        lines: list[list[str]] = []
        everything: list[Pair] = []
        for source in names:
            for destination in names:
                here, there = common(rows, source, destination) if source != destination else ([], [])
                if not here:
                    continue
                found = pairs(here, there)
                everything += found
                for kind in sorted({one.kind for one in found}):
                    own = [one for one in found if one.kind is kind]
                    lines.append(line(f"{source} → {destination}", kind.value, own))
        if everything:
            lines.append(line("all", "all", everything))
        tables.append(f"## {title}\n\n{table(head, lines)}")
        figures += [dict(zip(["set", *head], [name, *one], strict=True)) for one in lines]
    introduction = (
        "Mean |predicted / measured - 1| of the time on the second GPU, for kernels measured on both, in "
        "float32 without TF32. *range holds*: the share of measured times in the range for kernels of "
        "unknown size."
    )
    body = "\n\n".join((introduction, *tables))
    title = "Measured kernels carried over to another GPU"
    print(write("carried_kernels", title, Machine.here(), body, figures, results=options.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
