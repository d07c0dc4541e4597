"""Relation between GPU work and the calls that launched it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph
from skyline.graph.selection import indices
from skyline.graph.tasks import ON_GPU


def launches(graph: Graph) -> Dependencies:
    """The dependencies of GPU work on the calls that launched it."""
    edges = graph.structure.dependencies
    tasks = graph.tasks
    return edges.taken(
        (edges.cause == CAUSE[Cause.LAUNCH])
        & ON_GPU[tasks.kind[edges.target]]
        & ~ON_GPU[tasks.kind[edges.source]]
    )


def launches_of(graph: Graph, chosen: Iterable[int]) -> Indices:
    """The calls that launched only chosen GPU work."""
    found = launches(graph)
    wanted = np.zeros(len(graph), np.bool_)
    wanted[indices(chosen)] = True
    of_chosen = np.bincount(found.source[wanted[found.target]], minlength=len(graph))
    of_all = np.bincount(found.source, minlength=len(graph))
    return np.flatnonzero((of_chosen > 0) & (of_chosen == of_all))


def launched_by(graph: Graph, chosen: Iterable[int]) -> Indices:
    """The GPU work that the chosen calls launched."""
    found = launches(graph)
    wanted = np.zeros(len(graph), np.bool_)
    wanted[indices(chosen)] = True
    return np.unique(found.target[wanted[found.source]]).astype(np.int64)
