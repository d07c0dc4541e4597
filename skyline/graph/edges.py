"""Primitive: add or remove dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from skyline.graph.column import Flags
from skyline.graph.dependency import CAUSE, Cause, Dependency
from skyline.graph.graph import Graph
from skyline.graph.selection import indices


def add_dependencies(graph: Graph, dependencies: Sequence[Dependency]) -> Graph:
    """The graph with further dependencies.

    A dependency that contradicts the others forms a cycle; the first access of the order raises ``CyclicGraph``.

    Raises:
        IndexError: a dependency names a task that does not exist.
    """
    joined = graph.structure.dependencies.joined(dependencies)
    for column in (joined.source, joined.target):
        if len(column) and (column.min() < 0 or column.max() >= len(graph)):
            raise IndexError(f"dependencies name tasks 0 to {len(graph) - 1}")
    return graph.with_dependencies(joined)


def cut_dependencies(
    graph: Graph,
    *,
    cause: Cause | tuple[Cause, ...] | None = None,
    source: Iterable[int] | None = None,
    target: Iterable[int] | None = None,
) -> Graph:
    """The graph without the dependencies that match all given criteria: cause, source task, target task.

    The order of the tasks on a lane is not a dependency. It remains until tasks are moved, or the lane's schedule is
    overridden.
    """
    edges = graph.structure.dependencies
    cut = np.ones(len(edges), np.bool_)
    if cause is not None:
        cut &= np.isin(edges.cause, [CAUSE[one] for one in (cause if isinstance(cause, tuple) else (cause,))])
    if source is not None:
        cut &= _flags(graph, source)[edges.source]
    if target is not None:
        cut &= _flags(graph, target)[edges.target]
    return graph.with_dependencies(edges.taken(~cut)) if cut.any() else graph


def _flags(graph: Graph, chosen: Iterable[int]) -> Flags:
    flags = np.zeros(len(graph), np.bool_)
    flags[indices(chosen)] = True
    return flags
