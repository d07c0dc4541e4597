"""Primitive: let priorities instead of the recorded order decide which task of a lane runs next."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Ids, indices
from skyline.graph.graph import Graph


def prioritise(graph: Graph, chosen: Iterable[int], priority: npt.ArrayLike) -> Graph:
    """Release the lanes of the chosen tasks: among ready tasks, the highest priority runs first.

    ``priority`` is one number, or one for each chosen task. Other tasks of those lanes keep their earlier priority, or
    get 0. Ties go to the earlier task. Only dependencies constrain the order on a released lane. Use it for links and
    streams, not for a CPU thread, whose order is that of the program.

    The scheduling engine simulates released lanes. There, a shorter task can make the total longer (Graham's
    anomalies).
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
    """Restore the stored order of the tasks on every lane."""
    return Graph(graph.structure, graph.durations, graph.gaps)


def is_free(graph: Graph, index: int) -> bool:
    """True if priorities decide the order on the task's lane."""
    return graph.priorities is not None and not np.isnan(graph.priorities[index])


def followed_tasks(graph: Graph) -> Ids:
    """For each task its predecessor in the lane's order, or -1."""
    before = graph.structure.before
    return before if graph.priorities is None else np.where(np.isnan(graph.priorities), before, -1)
