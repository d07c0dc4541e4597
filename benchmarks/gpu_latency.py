"""Measured kernel times of several GPUs as operator shapes, read from a folder outside the repository."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.record import OperatorShape
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.operator_class import OperatorClass

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "gpu_latency"
TRAIN, SEEN, UNSEEN = "kernels_train", "kernels_test_seen_gpus", "kernels_test_visible"
_BINARY = frozenset({"add", "mul", "div", "pow"})
_NAMES = {"ln": "native_layer_norm", "softmax": "_softmax", "conv": "convolution", "linear": "addmm"}
_CLASSES = {
    "bmm": OperatorClass.MATRIX,
    "linear": OperatorClass.MATRIX,
    "conv": OperatorClass.CONVOLUTION,
    "ln": OperatorClass.NORMALIZATION,
    "softmax": OperatorClass.SOFTMAX,
}
F32 = "float32"


@dataclass(frozen=True, slots=True)
class KernelLatency:
    """One kernel: its operator as named in the data, its shape, its GPU and its time."""

    op: str
    kind: OperatorClass
    gpu: GpuSpec
    shape: OperatorShape
    time_us: float


def measured(folder: Path, name: str) -> Iterator[KernelLatency]:
    """The kernels of one file of the folder."""
    with gzip.open(folder / f"{name}.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            kind = _CLASSES.get(row["op"], OperatorClass.ELEMENTWISE)
            gpu = gpu_of(row["gpu"])
            yield KernelLatency(row["op"], kind, gpu, _shape(row), float(row["latency_ms"]) * 1e3)


def product(op: str, batch: int, rows: int, inner: int, columns: int) -> OperatorShape:
    """``bmm`` or ``linear`` of (rows x inner) and (inner x columns)."""
    lead = (batch,) if op == "bmm" else ()
    left, right, out = (*lead, rows, inner), (*lead, inner, columns), (*lead, rows, columns)
    inputs = (left, right) if lead else ((columns,), left, right)
    moved = 4 * batch * (rows * inner + inner * columns + rows * columns)
    name = f"aten::{_NAMES.get(op, op)}"
    flops = 2 * batch * rows * inner * columns
    return OperatorShape(name, inputs, (F32,) * len(inputs), (out,), (F32,), flops, moved)


def rowwise(op: str, rows: int, columns: int) -> OperatorShape:
    """An elementwise operator, softmax or layer normalisation on a matrix."""
    size = (rows, columns)
    inputs = (size, size) if op in _BINARY else (size,)
    name = f"aten::{_NAMES.get(op, op.removesuffix('u'))}"
    moved = 4 * rows * columns * (len(inputs) + 1)
    return OperatorShape(name, inputs, (F32,) * len(inputs), (size,), (F32,), 0, moved)


def _convolution(row: dict[str, str]) -> OperatorShape:
    batch, cin, cout, kernel, size, stride, pad = (
        int(float(row[name])) for name in ("b", "cin", "cout", "ksize", "isize", "stride", "pad")
    )
    across = (size + 2 * pad - kernel) // stride + 1
    image, weight, out = (batch, cin, size, size), (cout, cin, kernel, kernel), (batch, cout, across, across)
    flops = 2 * batch * cout * across**2 * cin * kernel**2
    moved = 4 * (batch * cin * size**2 + cout * cin * kernel**2 + batch * cout * across**2)
    return OperatorShape("aten::convolution", (image, weight), (F32, F32), (out,), (F32,), flops, moved)


def _shape(row: dict[str, str]) -> OperatorShape:
    if row["op"] == "conv":
        return _convolution(row)
    if row["op"] in ("bmm", "linear"):
        batch, rows, columns, inner = (int(float(row[name])) for name in "bmnk")
        return product(row["op"], batch, rows, inner, columns)
    return rowwise(row["op"], int(float(row["rows"])), int(float(row["cols"])))
