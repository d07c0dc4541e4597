"""Primitive: which task of a lane goes first is decided while it runs, not by the recorded order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Ids
from skyline.graph.graph import Graph
from skyline.graph.selection import indices


def prioritise(graph: Graph, chosen: Iterable[int], priority: npt.ArrayLike) -> Graph:
    """Free the lanes of the chosen tasks: of what is ready there, the greatest priority goes first.

    ``priority`` is one number, or one for each chosen task. The other tasks of those lanes have the priority 0, or
    the one given before; of equals the one that stands first goes first. Only dependencies hold on a freed lane, so
    it is meant for links and streams, not for a CPU thread, whose order is that of the program.

    Freed lanes are simulated by the scheduling engine. There a task that takes less time can make the whole take
    longer (Graham's anomalies).
    """
    places = indices(chosen)
    lane = graph.tasks.lane
    freed = np.zeros(len(graph.tasks.lanes), np.bool_)
    freed[lane[places]] = True
    priorities = np.full(len(graph), np.nan) if graph.priorities is None else graph.priorities.copy()
    priorities[freed[lane] & np.isnan(priorities)] = 0.0
    priorities[places] = priority
    return graph.with_times(priorities=priorities)


def in_recorded_order(graph: Graph) -> Graph:
    """Every lane keeps the order in which its tasks stand again."""
    return Graph(graph.structure, graph.durations, graph.gaps)


def is_free(graph: Graph, index: int) -> bool:
    """Whether the task's lane is free to choose."""
    return graph.priorities is not None and not np.isnan(graph.priorities[index])


def followed_tasks(graph: Graph) -> Ids:
    """For each task the one that it follows on its lane by the lane's order, or -1."""
    before = graph.structure.before
    return before if graph.priorities is None else np.where(np.isnan(graph.priorities), before, -1)
