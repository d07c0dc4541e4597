"""The tasks of a graph grouped by a common property: a line, a layer, a name, a phase."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from skyline.graph.column import Codes, Ids
from skyline.graph.graph import Graph
from skyline.graph.task import KINDS, PHASES

By = Literal["line", "call_line", "layer", "name", "phase", "lane", "kind"]


def groups_by(graph: Graph, by: By) -> dict[str, Ids]:
    """The indices of the tasks of each group, by its name. Tasks with an unknown property are in no group.

    A task of a layer also belongs to all layers around it: a task of ``encoder.0.attention`` also to
    ``encoder.0`` and ``encoder``. Lines are named ``file:number``.
    """
    tasks, structure = graph.tasks, graph.structure
    if by == "line" or by == "call_line":  # noqa: PLR1714  a type checker narrows by this
        lines = [f"{line.file}:{line.line}" for line in structure.lines]
        return _named(tasks.line if by == "line" else tasks.call_line, lines)
    if by == "layer":
        own = _named(tasks.module, structure.modules)
        around: dict[str, list[Ids]] = {}
        for name, members in own.items():
            for outer in _layers_around(name):
                around.setdefault(outer, []).append(members)
        return {name: np.sort(np.concatenate(parts)) for name, parts in around.items()}
    if by == "name":
        return _named(tasks.name, tasks.names)
    if by == "lane":
        return _named(tasks.lane, tasks.lanes)
    if by == "phase":
        return _named(tasks.phase, [phase.value for phase in PHASES])
    return _named(tasks.kind, [kind.value for kind in KINDS])


def _layers_around(name: str) -> Iterable[str]:
    parts = name.split(".")
    return (".".join(parts[: depth + 1]) for depth in range(len(parts)))


def _named(column: Ids | Codes, names: Sequence[str]) -> dict[str, Ids]:
    places = np.argsort(column, kind="stable").astype(np.int32)
    values, firsts = np.unique(column[places], return_index=True)
    found: dict[str, list[Ids]] = {}
    for value, members in zip(values.tolist(), np.split(places, firsts[1:]), strict=True):
        if 0 <= value < len(names):
            found.setdefault(names[int(value)], []).append(members)
    return {
        name: parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts)) for name, parts in found.items()
    }
