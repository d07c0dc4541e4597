"""Tasks with their dependencies, durations and gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices, Times, frozen
from skyline.graph.dependency import Cause, Dependencies, Dependency
from skyline.graph.order import CyclicGraph
from skyline.graph.structure import Structure
from skyline.graph.tasks import Tasks

__all__ = ["Cause", "CyclicGraph", "Dependency", "Graph", "Structure"]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Graph:
    """A structure with times in µs: one duration and one gap per task. Graphs share equal columns.

    The gap of a CPU task is the unrecorded time after it on its lane; it remains when other work is removed. The
    gap of a GPU task is only the turnaround of its stream. Idle time is not stored; the simulation computes it.

    ``priorities`` override the schedule. Tasks of a lane without priorities (NaN) run in their stored order. On a
    lane with priorities, the ready task with the highest number runs first; ties go to the earlier task.
    """

    structure: Structure
    durations: Times
    gaps: Times
    priorities: Times | None = None

    def __init__(
        self,
        structure: Structure,
        durations: npt.ArrayLike,
        gaps: npt.ArrayLike | None = None,
        priorities: npt.ArrayLike | None = None,
    ) -> None:
        count = len(structure)
        given: dict[str, Any] = {
            "durations": durations,
            "gaps": np.zeros(count) if gaps is None else gaps,
            "priorities": priorities,
        }
        object.__setattr__(self, "structure", structure)
        for name, values in given.items():
            column = None if values is None else frozen(values, np.float64)
            if column is not None and len(column) != count:
                raise ValueError(f"{len(column)} {name} for {count} tasks")
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.structure)

    @property
    def tasks(self) -> Tasks:
        """The tasks, in the order of ``durations`` and ``gaps``."""
        return self.structure.tasks

    @property
    def iterations(self) -> tuple[int, ...]:
        """The numbers of the graph's iterations, in order."""
        return self.structure.iterations

    def with_times(
        self,
        durations: npt.ArrayLike | None = None,
        gaps: npt.ArrayLike | None = None,
        priorities: npt.ArrayLike | None = None,
    ) -> Graph:
        """The graph with other times or priorities on the same structure; omitted arguments are shared."""
        return Graph(
            self.structure,
            self.durations if durations is None else durations,
            self.gaps if gaps is None else gaps,
            self.priorities if priorities is None else priorities,
        )

    def with_dependencies(self, dependencies: Sequence[Dependency]) -> Graph:
        """The graph with exactly these dependencies."""
        structure = self.structure.with_parts(dependencies=dependencies)
        return Graph(structure, self.durations, self.gaps, self.priorities)


def arranged(graph: Graph, rows: Indices) -> Graph:
    """The graph of the tasks ``rows`` in the given order. Dependencies of omitted tasks are dropped.

    Each row occurs at most once.
    """
    place = np.full(len(graph), -1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    edges = graph.structure.dependencies
    source, target = place[edges.source], place[edges.target]
    kept = (source >= 0) & (target >= 0)
    moved = edges.taken(kept).between(source[kept], target[kept])
    return Graph(
        graph.structure.with_parts(graph.tasks.taken(rows), moved),
        graph.durations[rows],
        graph.gaps[rows],
        None if graph.priorities is None else graph.priorities[rows],
    )


def extended(graph: Graph, tasks: Tasks, durations: Times, gaps: Times, dependencies: Dependencies) -> Graph:
    """The graph with further tasks at its end and exactly these dependencies.

    On a lane with an overridden schedule, a further task gets priority 0.
    """
    grown = graph.tasks.joined(tasks)
    priorities = graph.priorities
    if priorities is not None:
        free = np.zeros(len(grown.lanes), np.bool_)
        free[graph.tasks.lane[~np.isnan(priorities)]] = True
        of_new = np.where(free[grown.lane[len(graph) :]], 0.0, np.nan)
        priorities = np.concatenate((priorities, of_new))
    return Graph(
        graph.structure.with_parts(grown, dependencies),
        np.concatenate((graph.durations, durations)),
        np.concatenate((graph.gaps, gaps)),
        priorities,
    )
