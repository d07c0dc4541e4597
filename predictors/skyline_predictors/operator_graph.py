"""Operator graphs of whole models from measured data: nodes in order, and the work of each."""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass

Row = dict[str, str]
Size = tuple[int, ...]
NODES, OPERATORS = "opgraph_nodes.csv.gz", "opgraph_ops.csv.gz"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of a traced graph.

    ``kind`` is the data's word for its operator (``Linear``, ``VECadd``, ``misc``, …) and ``name`` the name
    of the traced call. The node runs ``repeat`` times: one layer represents all. ``inputs`` and ``output``
    are shapes. A number among the inputs is a tensor of one element. ``work`` are the rows of its primitive
    operators.
    """

    number: int
    name: str
    kind: str
    repeat: float
    inputs: tuple[Size, ...]
    output: Size
    work: tuple[Row, ...]

    def phase(self, name: str) -> list[Row]:
        """The primitive operators of forward (``fw``), backward (``bw``) or accumulation (``acc``)."""
        return [row for row in self.work if row.get("phase") == name]


def graph_nodes(graph: str, folder: Path) -> tuple[GraphNode, ...]:
    """The nodes of the graph with this name.

    Raises:
        UsageError: the folder has no such graph.
    """
    known = _graphs(folder)
    if graph in known:
        return known[graph]
    raise UsageError(
        f"there is no graph {graph!r} in {folder}",
        hint=f"Those of {NODES} can be asked for: {', '.join(sorted(known)[:6])}, …" if known else "",
    )


def has_graph(graph: str, folder: Path) -> bool:
    """True if the folder describes the graph with this name."""
    return graph in _graphs(folder)


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a CSV file, compressed or not.

    Raises:
        UsageError: there is no such file.
    """
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
                yield from csv.DictReader(file)
        else:
            with path.open(encoding="utf-8", newline="") as file:
                yield from csv.DictReader(file)
    except FileNotFoundError:
        raise UsageError(
            f"there is no {path.name} in {path.parent}", hint="Name a folder laid out like the measured data."
        ) from None


@cache
def _graphs(folder: Path) -> dict[str, tuple[GraphNode, ...]]:
    """The graphs of the folder by name. Empty if it has none.

    Raises:
        UsageError: the files are there and cannot be read.
    """
    if not ((folder / NODES).is_file() and (folder / OPERATORS).is_file()):
        return {}
    try:
        return _read(folder)
    except (KeyError, ValueError, OSError, EOFError, csv.Error) as error:
        raise UsageError(
            f"the operator graphs in {folder} cannot be read: {type(error).__name__} {error}",
            hint=f"{NODES} and {OPERATORS} need the columns and numbers that the data's README lists.",
        ) from None


def _read(folder: Path) -> dict[str, tuple[GraphNode, ...]]:
    work: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in read_rows(folder / OPERATORS):
        work[row["graph"], row["node"]].append(row)
    found: dict[str, list[GraphNode]] = defaultdict(list)
    for row in read_rows(folder / NODES):
        rows = work.get((row["graph"], row["node"]), [])
        found[row["graph"]].append(
            GraphNode(
                int(row["node"]),
                row["name"],
                row["optype"],
                _finite(row["repeat"] or 1),
                tuple(_size(text) for text in (row.get("in_shapes") or "").split("|") if text),
                _size(row.get("out_shape") or ""),
                tuple(sorted(rows, key=lambda one: int(one.get("seq") or 0))),
            )
        )
    return {graph: tuple(nodes) for graph, nodes in found.items()}


def _finite(text: str | float) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no number")
    return value


def _size(text: str) -> Size:
    return tuple(int(part) for part in text.split("x") if part) if text else ()
