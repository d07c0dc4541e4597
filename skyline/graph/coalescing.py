"""Merging of runs of similar tasks: fewer tasks to simulate, the same total time on every lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.graph import Graph
from skyline.graph.merging import grouped

_KEPT_APART = ("kind", "work", "iteration", "phase", "line", "call_line", "module")


def coalesce(graph: Graph, keys: Sequence[npt.NDArray[Any]] | None = None) -> Graph:
    """Merge neighbours on a lane that agree in all ``keys`` and have no dependencies between them.

    A key is an array with one value per task. A merged task takes the sum of the durations, followed by the sum of
    the gaps. The default keys separate tasks that are displayed or changed separately: kind, class of work,
    iteration, phase, line and layer.
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
    for column in columns:
        joins &= column[later] == column[earlier]
    return grouped(graph, joins)
