"""Chooses the measured kernels that ship for the predictor ``wave``, and how far carried times may be off.

Only the training file of the data is read. Of each class some kernels of each GPU ship, as their sizes and by how
much they differ from the traffic model. The spreads come from kernels that do not ship: on the same GPU, and on every
other one of a neighbouring generation, carried over from the first.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import math
import sys
import zlib
from collections import defaultdict
from pathlib import Path

import msgspec
import numpy as np
from calibrate_hierarchy import without
from gpu_latency import DATA, TRAIN, KernelLatency, measured

from skyline_predictors import measured_kernels as shipped
from skyline_predictors.constants import Spread
from skyline_predictors.gpu_generation import generation
from skyline_predictors.hierarchy import Hierarchy
from skyline_predictors.hierarchy_constants import hierarchy_constants
from skyline_predictors.measured_kernels import MeasuredKernels, Source, WaveSpreads
from skyline_predictors.number_format import MEASURED
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.wave import Wave
from skyline_predictors.work import read_work

_LEAST_US = 60.0
_SHIPPED = {OperatorClass.MATRIX: 1500, OperatorClass.CONVOLUTION: 800}
_SHIPPED_OTHERWISE = 200
_TRIED = 250
_TAIL = 0.05
_LEFT_OUT = "P4"
"""Its linear layers were measured with a library that no longer computes them."""

Kernels = dict[str, dict[OperatorClass, list[KernelLatency]]]


def split(rows: list[KernelLatency]) -> tuple[Kernels, Kernels]:
    """By GPU and class those that ship, and others to try them on; a shape is one or the other on all GPUs."""
    groups: dict[tuple[str, OperatorClass], list[KernelLatency]] = defaultdict(list)
    for row in rows:
        groups[row.gpu.name, row.kind].append(row)
    ship: Kernels = defaultdict(dict)
    hold: Kernels = defaultdict(dict)
    for (gpu, kind), group in groups.items():
        group.sort(key=lambda row: zlib.crc32(repr((row.op, row.shape.inputs)).encode()))
        count = min(_SHIPPED.get(kind, _SHIPPED_OTHERWISE), len(group) // 2)
        if gpu != _LEFT_OUT:
            ship[gpu][kind] = group[:count]
        hold[gpu][kind] = group[-min(_TRIED, len(group) // 2) :]
    return ship, hold


def compared(rows: list[KernelLatency]) -> MeasuredKernels:
    """What ships of some kernels of one class and GPU."""
    model = Hierarchy()
    work = read_work(rows[0].kind, [row.shape for row in rows], MEASURED)
    said = model.fastest_of(work, rows[0].gpu)
    beside = model.beside_us(rows[0].shape)
    # The launch is part of the measurement and not of the kernel; what is left of a short one is uncertain.
    taken = np.array([max(row.time_us - beside, 0.3 * row.time_us) for row in rows])
    return MeasuredKernels(
        work.extents.astype(np.float32).astype(np.float64),
        np.log(taken / said).astype(np.float32).astype(np.float64),
    )


def logs(
    measured_: dict[str, Source], source: str, rows: list[KernelLatency], model: Hierarchy | None = None
) -> np.ndarray:
    """Logarithms of measured over carried times."""
    said = Wave(measured_, source, model).measured_us([row.shape for row in rows], rows[0].gpu)
    return np.log(np.array([row.time_us for row in rows]) / np.array(said))


def spread(found: list[np.ndarray]) -> Spread:
    """What holds nine in ten of each; at least one."""
    low = min(1.0, *(float(np.exp(np.quantile(one, _TAIL))) for one in found))
    high = max(1.0, *(float(np.exp(np.quantile(one, 1 - _TAIL))) for one in found))
    return Spread(float(f"{low:.3g}"), float(f"{high:.3g}"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the measured kernels")
    parser.add_argument("--output", type=Path, default=Path(shipped.__file__).parent)
    options = parser.parse_args()
    rows = [
        row
        for row in measured(options.data, TRAIN)
        if row.time_us > _LEAST_US and (row.op, row.gpu.name) != ("linear", _LEFT_OUT)
    ]
    ship, hold = split(rows)
    sources = {gpu: {kind: compared(group) for kind, group in kinds.items()} for gpu, kinds in ship.items()}
    known: dict[OperatorClass, list[np.ndarray]] = defaultdict(list)
    carried: dict[OperatorClass, list[np.ndarray]] = defaultdict(list)
    for gpu, kinds in hold.items():
        for kind, group in kinds.items():
            if gpu in sources:
                known[kind].append(logs(sources, gpu, group))
            others = {name: one for name, one in sources.items() if name != gpu and kind in one}
            source = Wave(others).source(group[0].gpu).name
            # The model must not know the second GPU's generation either.
            unknowing = Hierarchy(without(hierarchy_constants(), generation(group[0].gpu)))
            found = logs(others, source, group, unknowing)
            carried[kind].append(found)
            error = float(np.abs(found).mean())
            print(
                f"{kind.value:14} {source:14} -> {gpu:14} mean |log| {error:.3f}, median {np.median(found):+.3f}"
            )
    for kind, each in known.items():
        print(f"{kind.value:14} on the GPU itself: {[round(float(np.abs(one).mean()), 3) for one in each]}")
    record = WaveSpreads(
        {kind: spread(each) for kind, each in known.items()},
        {kind: spread(each) for kind, each in carried.items()},
        {gpu: sum(map(len, kinds.values())) for gpu, kinds in ship.items()},
        hashlib.sha256((options.data / f"{TRAIN}.csv.gz").read_bytes()).hexdigest(),
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    )
    columns = {
        f"{gpu}|{kind.value}|{name}": getattr(one, name).astype(
            np.float32 if name == "log_ratio" else np.float16
        )
        for gpu, kinds in sources.items()
        for kind, one in kinds.items()
        for name in ("sizes", "log_ratio")
    }
    np.savez_compressed(options.output / shipped.FILE, **columns)
    (options.output / shipped.SPREADS).write_bytes(
        msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"
    )
    size = math.ceil((options.output / shipped.FILE).stat().st_size / 1000)
    print(f"{shipped.FILE}: {size} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
