"""Primitive: tasks run elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from skyline.graph.column import without_unused
from skyline.graph.dependency import NO_DEPENDENCIES, Dependency
from skyline.graph.graph import Graph
from skyline.graph.selection import indices


def move(
    graph: Graph, chosen: Iterable[int], lane: str, dependencies: Sequence[Dependency] = NO_DEPENDENCIES
) -> Graph:
    """The chosen tasks run on another lane, which may be a new one, under the old dependencies and the further ones.

    There they take their places among the other tasks in the order in which they all stand. What only the order of
    the old lane had ensured no longer holds: where it must, say so by ``dependencies``. With the tasks go their
    gaps. On a lane whose schedule is overridden they get the priority 0; elsewhere they keep the order.
    """
    places = indices(chosen)
    tasks = graph.tasks
    lanes = tasks.lanes if lane in tasks.lanes else (*tasks.lanes, lane)
    code = lanes.index(lane)
    column = tasks.lane.copy()
    column[places] = code
    priorities = graph.priorities
    if priorities is not None:
        there = priorities[tasks.lane == code]
        priorities = priorities.copy()
        priorities[places] = 0.0 if len(there) and not np.isnan(there[0]) else np.nan
    lanes, column = without_unused(lanes, column)
    return Graph(
        graph.structure.with_parts(
            tasks.changed(lanes=lanes, lane=column), graph.structure.dependencies.joined(dependencies)
        ),
        graph.durations,
        graph.gaps,
        priorities,
    )
