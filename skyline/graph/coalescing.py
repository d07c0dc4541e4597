"""Merging runs of like tasks: fewer tasks to simulate, with the same times on every lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.graph import Graph
from skyline.graph.merging import grouped

_KEPT_APART = ("kind", "work", "iteration", "phase", "line", "call_line", "module")


def coalesce(graph: Graph, keys: Sequence[npt.NDArray[Any]] | None = None) -> Graph:
    """Merge neighbours on a lane that agree in all ``keys`` and that nothing depends on or waits inside of.

    A key is an array with a value for each task. The merged task takes the sum of the durations and then the
    sum of the gaps. By default those are kept apart that are shown or changed apart: by kind, class of work,
    iteration, phase, line and layer. On a lane whose schedule is overridden nothing is merged.
    """
    structure = graph.structure
    columns = [getattr(graph.tasks, name) for name in _KEPT_APART] if keys is None else keys
    members = structure.lane_members
    later, earlier = members[1:], members[:-1]
    bound_in = np.zeros(len(graph), np.bool_)
    bound_in[structure.dependencies.target] = True
    bound_out = np.zeros(len(graph), np.bool_)
    bound_out[structure.dependencies.source] = True
    joins = (structure.before[later] >= 0) & ~bound_in[later] & ~bound_out[earlier]
    if graph.priorities is not None:
        joins &= np.isnan(graph.priorities[later])
    for column in columns:
        joins &= column[later] == column[earlier]
    return grouped(graph, joins)
