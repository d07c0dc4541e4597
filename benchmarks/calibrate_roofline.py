"""Finds the constants of the roofline predictor from measured kernels, and writes them into its package.

Only the training file of the data is read. Each constant minimises the mean absolute logarithm of predicted over
measured time: first the shares of bandwidth, then the traffic of softmax and normalisation, then the matrix products
and convolutions by a random search with a fixed seed. The spreads are quantiles of the residuals.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from gpu_latency import DATA, TRAIN, KernelLatency, measured
from random_search import Place, search

from skyline.predict.gpu_spec import GpuSpec
from skyline_predictors import constants as shipped
from skyline_predictors.constants import Constants, Spread
from skyline_predictors.matrix_time import MatrixConstants
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.roofline import LONG_ROW, Roofline

_LEAST_US = 60.0
"""Smallest time used, because shorter times are mostly the time of the launch."""
_LIMITS: dict[str, tuple[float, float]] = {
    "compute_share": (0.05, 1.0),
    "convolution_share": (0.05, 1.0),
    "tile_share": (0.05, 1.2),
    "inner_overhead": (0.1, 200.0),
    "bandwidth_share": (0.3, 0.95),
    "split_us": (1.0, 400.0),
    "overlap": (1.0, 8.0),
    "overhead_us": (1.0, 60.0),
}
"""The allowed range of each constant."""
_ROWS = 150
"""Maximum number of rows per operator and GPU that the search uses."""
_TAIL = 0.05
_SEED = 1
_SHARES = {"compute_share": OperatorClass.MATRIX, "convolution_share": OperatorClass.CONVOLUTION}

START = Constants(
    matrix=MatrixConstants({1024: 0.2, 4096: 0.64, 8192: 1.0, 16384: 1.0, 32768: 0.9}, 8.0, 8192.0, 0.7, 5.0, 3.0),
    convolution=MatrixConstants(
        {1024: 0.2, 4096: 0.64, 8192: 1.0, 16384: 1.0, 32768: 0.9}, 8.0, 8192.0, 0.7, 5.0, 3.0
    ),
    compute_share={},
    convolution_share={},
    bandwidth_share={},
    newest="8.0",
    traffic={},
    long_softmax_traffic=1.5,
    overhead_us=dict.fromkeys(OperatorClass, 10.0),
    known={},
    left_out={},
)  # fmt: skip


def generation(row: KernelLatency) -> str:
    return row.gpu.generation


def log_ratios(figures: Constants, rows: Sequence[KernelLatency]) -> list[float]:
    """Logarithms of measured over predicted time. The prediction includes the overhead of the measurement."""
    roofline = Roofline(figures)
    groups: dict[GpuSpec, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[row.gpu].append(place)
    found = [0.0] * len(rows)
    for gpu, places in groups.items():
        own = [rows[place] for place in places]
        times = roofline.kernels_us([row.shape for row in own], [(row.kind, "float32") for row in own], gpu)
        for place, row, time in zip(places, own, times.tolist(), strict=True):
            found[place] = math.log(row.time_us / (time + figures.overhead_us[row.kind]))
    return found


def loss(figures: Constants, rows: Sequence[KernelLatency]) -> float:
    return statistics.fmean(map(abs, log_ratios(figures, rows)))


def best(candidates: Sequence[float], score: Callable[[float], float]) -> float:
    return min(candidates, key=score)


def sample(rows: Sequence[KernelLatency], chooser: random.Random) -> list[KernelLatency]:
    """A random sample of at most ``_ROWS`` rows of every operator on every GPU."""
    groups: dict[tuple[str, str], list[KernelLatency]] = defaultdict(list)
    for row in rows:
        groups[row.op, row.gpu.name].append(row)
    return [row for group in groups.values() for row in chooser.sample(group, min(_ROWS, len(group)))]


def fit_bandwidth(figures: Constants, rows: list[KernelLatency]) -> Constants:
    """Fit bandwidth shares and overhead of elementwise work, then the traffic of softmax and normalisation."""
    plain = [row for row in rows if row.kind is OperatorClass.ELEMENTWISE]
    generations = sorted({generation(row) for row in plain})

    def with_overhead(overhead: float) -> Constants:
        shares = {
            one: statistics.median(
                row.shape.bytes_moved / (row.time_us - overhead) / row.gpu.bandwidth_gb_s / 1e3
                for row in plain
                if generation(row) == one
            )
            for one in generations
        }
        beside = {**figures.overhead_us, OperatorClass.ELEMENTWISE: overhead}
        return msgspec.structs.replace(figures, bandwidth_share=shares, overhead_us=beside)

    found = with_overhead(best(range(0, 31, 2), lambda overhead: loss(with_overhead(overhead), plain)))
    for kind in (OperatorClass.SOFTMAX, OperatorClass.NORMALIZATION):
        own = [row for row in rows if row.kind is kind]
        pairs = [(traffic / 20, overhead) for traffic in range(16, 50) for overhead in range(0, 31, 5)]

        def with_traffic(
            pair: tuple[float, float], base: Constants = found, kind: OperatorClass = kind
        ) -> Constants:
            return msgspec.structs.replace(
                base,
                traffic={**base.traffic, kind: pair[0]},
                overhead_us={**base.overhead_us, kind: pair[1]},
            )

        if kind is OperatorClass.SOFTMAX:
            own = [row for row in own if row.shape.inputs[0][-1] <= LONG_ROW]
        found = with_traffic(min(pairs, key=lambda pair: loss(with_traffic(pair), own)))
    return fit_long_softmax(found, [row for row in rows if row.kind is OperatorClass.SOFTMAX])


def fit_long_softmax(figures: Constants, rows: list[KernelLatency]) -> Constants:
    """Fit the memory traffic of softmax for rows that do not fit into the registers of a block."""
    long = [row for row in rows if row.shape.inputs[0][-1] > LONG_ROW]

    def with_traffic(traffic: float) -> Constants:
        return msgspec.structs.replace(figures, long_softmax_traffic=traffic)

    return with_traffic(
        best([step / 20 for step in range(16, 60)], lambda one: loss(with_traffic(one), long))
    )


def fit_products(
    figures: Constants, rows: list[KernelLatency], shares: str, steps: int, chooser: random.Random
) -> Constants:
    """Fit a share of peak for each generation, and the common constants, by random steps that reduce the error."""
    kind = _SHARES[shares]
    field = "matrix" if kind is OperatorClass.MATRIX else "convolution"
    rows = [row for row in rows if row.kind is kind]
    generations = sorted({generation(row) for row in rows})
    figures = msgspec.structs.replace(figures, **{shares: dict.fromkeys(generations, 0.6)})
    values = msgspec.to_builtins(figures)
    constants = ("inner_overhead", "bandwidth_share", "split_us", "overlap")
    free: list[Place] = [
        *((shares, one) for one in generations),
        *((field, "tile_share", area) for area in values[field]["tile_share"]),
        *((field, name) for name in constants),
        ("overhead_us", kind.value),
    ]

    def as_figures(held: object) -> Constants:
        return msgspec.convert(held, Constants, strict=False)

    lowest = search(values, free, _LIMITS, steps, chooser, lambda held: loss(as_figures(held), rows))
    figures = as_figures(values)
    print(f"{kind.value}: mean |log| {lowest:.3f} on {len(rows)} rows", file=sys.stderr)
    return msgspec.structs.replace(figures, **{shares: with_newest(getattr(figures, shares), figures)})


def with_newest(shares: dict[str, float], figures: Constants) -> dict[str, float]:
    """The shares with an estimate for the newest generation, on which no convolution was measured.

    The estimate is its share for products times the median ratio of the two shares on the other generations.
    """
    ratios = [share / figures.compute_share[key] for key, share in shares.items()]
    estimated = statistics.median(ratios) * figures.compute_share[figures.newest]
    return {figures.newest: min(1.0, estimated), **shares}


def without(figures: Constants, generation_: str) -> Constants:
    """The constants as if GPUs of this generation had not been measured: they get the shares of the newest one."""
    changed: dict[str, dict[str, float]] = {}
    for name in ("compute_share", "convolution_share", "bandwidth_share"):
        shares = {key: value for key, value in getattr(figures, name).items() if key != generation_}
        # If the newest itself is left out, the median of the others replaces it.
        newest = shares.get(figures.newest) or statistics.median(shares.values())
        changed[name] = {**shares, figures.newest: newest}
    return msgspec.structs.replace(figures, **changed)


Spreads = dict[OperatorClass, Spread]


def spreads(figures: Constants, rows: list[KernelLatency]) -> tuple[Spreads, Spreads]:
    """The spreads by class of operator, with the shares of each GPU's generation and without them."""
    known: dict[OperatorClass, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    left_out: dict[OperatorClass, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row, log in zip(rows, log_ratios(figures, rows), strict=True):
        known[row.kind][row.gpu.name].append(log)
    for one in sorted({generation(row) for row in rows}):
        own = [row for row in rows if generation(row) == one]
        for row, log in zip(own, log_ratios(without(figures, one), own), strict=True):
            left_out[row.kind][row.gpu.name].append(log)
    return (
        {kind: widest(logs) for kind, logs in known.items()},
        {kind: widest(logs) for kind, logs in left_out.items()},
    )


def widest(logs: dict[str, list[float]]) -> Spread:
    """The spread that contains nine in ten rows on each GPU, because the next GPU may be like the worst of them."""
    low = high = 1.0
    for of_gpu in logs.values():
        ordered = sorted(of_gpu)
        outside = int(len(ordered) * _TAIL)
        low, high = min(low, math.exp(ordered[outside])), max(high, math.exp(ordered[-1 - outside]))
    return Spread(low, high)


def rounded(figures: Constants) -> Constants:
    """The constants rounded to three digits, which is more than the data support."""

    def short(value: object) -> object:
        if isinstance(value, float):
            return float(f"{value:.3g}")
        return {key: short(each) for key, each in value.items()} if isinstance(value, dict) else value

    return msgspec.convert(short(msgspec.to_builtins(figures)), Constants, strict=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the measured kernels")
    parser.add_argument("--steps", type=int, default=1000, help="steps of each random search")
    parser.add_argument("--output", type=Path, default=Path(shipped.__file__).with_name(shipped.FILE))
    options = parser.parse_args()
    chooser = random.Random(_SEED)
    # The P4's linear layers were measured with a library that no longer computes them.
    rows = [
        row
        for row in measured(options.data, TRAIN)
        if row.time_us > _LEAST_US and (row.op, row.gpu.name) != ("linear", "P4")
    ]
    few = sample(rows, chooser)
    figures = fit_bandwidth(START, few)
    for shares in _SHARES:
        figures = fit_products(figures, few, shares, options.steps, chooser)
    known, left_out = spreads(figures, few)
    figures = rounded(msgspec.structs.replace(figures, known=known, left_out=left_out))
    options.output.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
    print(options.output.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
