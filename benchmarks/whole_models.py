"""Measured times of whole language models, and their operators."""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_latency import F32, gpu_of, product, rowwise

from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.record import OperatorShape


@dataclass(frozen=True, slots=True)
class Model:
    """One model in one setting: its operators with their counts, and its measured time."""

    name: str
    mode: str
    gpu: GpuSpec
    operators: tuple[tuple[OperatorShape, int], ...]
    time_us: float


def models(folder: Path) -> Iterator[Model]:
    """The models on one GPU without operator fusion whose operators are all in the data."""
    graphs = _graphs(folder)
    with (folder / "e2e_labels_visible.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["option"] or row["graph"] not in graphs:
                continue
            gpu, time_us = gpu_of(row["gpu"]), float(row["e2e_ms"]) * 1e3
            yield Model(row["model"], row["mode"], gpu, tuple(graphs[row["graph"]].items()), time_us)


def _graphs(folder: Path) -> dict[str, Counter[OperatorShape]]:
    repeats = {
        (row["graph"], row["node"]): int(float(row["repeat"]))
        for row in _rows(folder / "opgraph_nodes.csv.gz")
    }
    graphs: dict[str, Counter[OperatorShape]] = defaultdict(Counter)
    for row in _rows(folder / "opgraph_ops.csv.gz"):
        shape = _shape(row)
        if shape is not None and not (row["phase"] != "fw" and "-inf-" in row["graph"]):
            graphs[row["graph"]][shape] += repeats.get((row["graph"], row["node"]), 1)
    return graphs


def _shape(row: dict[str, str]) -> OperatorShape | None:
    if row["op"] in ("linear", "bmm"):
        batch, rows, columns, inner = (int(float(row[name] or 1)) for name in "bmnk")
        return product(row["op"], batch, rows, inner, columns)
    if row["op"] == "mem":
        elements = int(float(row["elems"]))
        return OperatorShape("aten::copy_", ((elements,),), (F32,), ((elements,),), (F32,), 0, 4 * elements)
    if not row["rows"]:
        return None
    return rowwise(row["op"], int(float(row["rows"])), int(float(row["cols"])))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)
