"""Measured kernels as training sees them: sizes and times by family and GPU, without the overhead of timing."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.record import OperatorShape
from skyline_predictors.call_time import told_us
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.kernel_row import FLOAT, shape_of
from skyline_predictors.learned import family as families
from skyline_predictors.learned.calibration_rows import calibration_rows
from skyline_predictors.learned.family import Family, Sizes
from skyline_predictors.operator_graph import read_rows

Floats = NDArray[np.float64]
FILE = "kernels_train.csv.gz"
_TELLS_FROM, _TELLS_AT = 1.05, 1.35
"""Between these multiples of the shortest call, a time increasingly shows how long its kernel is. Calls of
the same short kernel scatter by less than the first multiple."""
_SHORT = 0.03
"""A kernel that needs less than this share of the shortest call is certainly hidden behind the call."""
_LONGER_COUNTS = 0.25
"""Exponent of a kernel's time in its weight. Long kernels dominate the time of a program and have more weight."""


@dataclass(frozen=True, slots=True)
class KernelMeasurements:
    """Kernels of one family on one GPU.

    The shapes, the times of calls and kernels, the time of the shortest call, and the weights. ``telling`` is
    0 if a call is no longer than the shortest one: its kernel is then short by an unknown amount, and
    ``kernel_us`` is an upper bound.
    """

    gpu: GpuSpec
    sizes: Sizes
    time_us: Floats
    kernel_us: Floats
    shortest_us: Floats
    weight: Floats
    telling: Floats
    reliable: NDArray[np.bool_]
    """False for measurements that other measurements of the same work contradict: see ``_reliable``."""

    def part(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> KernelMeasurements:
        """The selected kernels."""
        return KernelMeasurements(
            self.gpu,
            families.part(self.sizes, index),
            self.time_us[index],
            self.kernel_us[index],
            self.shortest_us[index],
            self.weight[index],
            self.telling[index],
            self.reliable[index],
        )


Sets = dict[Family, list[KernelMeasurements]]
Calls = dict[str, dict[str, float]]


def _reliable(op: str, gpu: str) -> bool:
    """True if a measurement is typical of such GPUs.

    The P4's linear layers ran with kernels for the previous generation, at a fifth of its peak. The same
    layers in another measurement, which is not used for training, ran at three quarters (the data's own note
    on defects).
    """
    return (op, gpu) != ("linear", "P4")


def measured(folders: Sequence[Path]) -> tuple[Sets, Calls, dict[str, int]]:
    """All float32 kernels of the training files: sets by family, the shortest calls, and numbers of rows by GPU.

    A source is a folder with a training file, or a file of ``skyline calibrate``.
    """
    shapes: dict[tuple[Family, str], list[OperatorShape]] = defaultdict(list)
    times: dict[tuple[Family, str], list[float]] = defaultdict(list)
    trusted: dict[tuple[Family, str], list[bool]] = defaultdict(list)
    gpus: dict[str, GpuSpec] = {}
    calls: dict[tuple[str, str], list[float]] = defaultdict(list)
    hidden: dict[tuple[str, str], list[float]] = defaultdict(list)
    for folder in folders:
        rows_here = calibration_rows(folder) if folder.is_file() else read_rows(folder / FILE)
        for row in rows_here:
            shape = shape_of(row)
            family = families.family_of(shape)
            if family is None or shape.dtypes[0] != FLOAT:
                continue
            gpu = gpu_of(row["gpu"], folder.parent if folder.is_file() else folder)
            gpus[gpu.name] = gpu
            time_us = float(row["latency_ms"]) * 1e3
            shapes[family, gpu.name].append(shape)
            times[family, gpu.name].append(time_us)
            trusted[family, gpu.name].append(_reliable(row["op"], gpu.name))
            calls[shape.operator, gpu.name].append(time_us)
            hidden[shape.operator, gpu.name].append(_least_us(shape, gpu))
    shortest = {key: _shortest_us(calls[key], hidden[key]) for key in calls}
    sets: Sets = defaultdict(list)
    for (family, name), asked in shapes.items():
        least = np.array([shortest[shape.operator, name] for shape in asked])
        time_us = np.array(times[family, name])
        kernel_us = told_us(time_us, least)
        telling = np.clip((time_us / least - _TELLS_FROM) / (_TELLS_AT - _TELLS_FROM), 0.0, 1.0)
        weight = kernel_us / time_us * kernel_us**_LONGER_COUNTS
        reliable = np.array(trusted[family, name])
        sizes = families.read(family, asked)
        weight = weight / weight.sum()
        sets[family].append(
            KernelMeasurements(gpus[name], sizes, time_us, kernel_us, least, weight, telling, reliable)
        )
    rows = {name: sum(len(own) for (_, gpu), own in times.items() if gpu == name) for name in gpus}
    return dict(sets), _by_generation(shortest, gpus), rows


def data_hash(folders: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of each training file, under the name of its folder."""
    files = (folder if folder.is_file() else folder / FILE for folder in folders)
    return {
        f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }


def _least_us(shape: OperatorShape, gpu: GpuSpec) -> float:
    """Time of the bytes plus the time of the arithmetic, at the stated peaks."""
    return shape.bytes_moved / (gpu.bandwidth_gb_s * 1e3) + shape.flops / (gpu.tflops_fp32 * 1e6)


def _shortest_us(calls: Sequence[float], least: Sequence[float]) -> float:
    """The time of a call whose kernel does almost nothing: the median, because the minimum of many calls is luck."""
    times, work = np.array(calls), np.array(least)
    short = times[work < _SHORT * times.min()]
    return float(np.median(short)) if len(short) else float(times.min())


def _by_generation(shortest: dict[tuple[str, str], float], gpus: dict[str, GpuSpec]) -> Calls:
    found: Calls = defaultdict(dict)
    for (operator, name), least in sorted(shortest.items()):
        found[operator][gpus[name].generation] = round(least, 1)
    for of_operator in found.values():
        of_operator[""] = round(float(np.median(list(of_operator.values()))), 1)
    return dict(found)
