"""Everything of a graph except its times; shared, with all derived columns, by graphs that differ in times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Flags, Ids, Indices, Times, frozen
from skyline.graph.dependency import NO_DEPENDENCIES, Dependencies, Dependency
from skyline.graph.order import CyclicGraph, topological_order
from skyline.graph.task import Task
from skyline.graph.tasks import Tasks
from skyline.trace.record import CodeLine

_Number = TypeVar("_Number", bound=np.generic)


Visit = tuple[int, int, tuple[tuple[int, float, bool], ...]]
"""A task as the simulation visits it: its lane, and for each dependency the source, the lag and ``from_start``."""


@dataclass(frozen=True, eq=False, init=False)
class Structure:
    """Tasks, dependencies, and the names of layers and lines.

    Tasks of a lane run in the order of ``tasks``. The columns ``module``, ``line`` and ``call_line`` index
    ``modules`` and ``lines``; both may be empty. Derived columns are computed on first access and cached.
    """

    tasks: Tasks
    dependencies: Dependencies
    modules: tuple[str, ...]
    lines: tuple[CodeLine, ...]

    def __init__(
        self,
        tasks: Sequence[Task],
        dependencies: Sequence[Dependency] = NO_DEPENDENCIES,
        modules: tuple[str, ...] = (),
        lines: tuple[CodeLine, ...] = (),
    ) -> None:
        fill = object.__setattr__
        fill(self, "tasks", Tasks.of(tasks))
        fill(self, "dependencies", Dependencies.of(dependencies))
        fill(self, "modules", modules)
        fill(self, "lines", lines)

    def __len__(self) -> int:
        return len(self.tasks)

    def with_parts(
        self, tasks: Sequence[Task] | None = None, dependencies: Sequence[Dependency] | None = None
    ) -> Structure:
        """The structure with other tasks or dependencies and the same names of layers and lines."""
        made = Structure(
            self.tasks if tasks is None else tasks,
            self.dependencies if dependencies is None else dependencies,
            self.modules,
            self.lines,
        )
        if tasks is None:
            # Columns that depend on the tasks alone stay valid.
            known = ("lane_members", "before", "after", "iterations")
            made.__dict__.update({name: self.__dict__[name] for name in known if name in self.__dict__})
        return made

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes; ``lane_of`` indexes them."""
        return self.tasks.lanes

    @property
    def lane_of(self) -> Ids:
        """The lane of each task."""
        return self.tasks.lane

    @cached_property
    def lane_members(self) -> Ids:
        """All tasks sorted by lane, in running order within each lane."""
        lane = self.lane_of
        # Narrow integers use radix sort, which takes a fifth of the time.
        narrow = lane.astype(np.uint16) if len(self.lanes) < 1 << 16 else lane
        return frozen(np.argsort(narrow, kind="stable"), np.int32)

    @cached_property
    def before(self) -> Ids:
        """For each task its predecessor on its lane, or -1."""
        members = self.lane_members
        lane = self.lane_of[members]
        found = np.full(len(members), -1, np.int32)
        same = lane[1:] == lane[:-1]
        found[members[1:][same]] = members[:-1][same]
        return frozen(found, np.int32)

    @cached_property
    def after(self) -> Ids:
        """For each task its successor on its lane, or -1."""
        found = np.full(len(self), -1, np.int32)
        follows = np.flatnonzero(self.before >= 0)
        found[self.before[follows]] = follows
        return frozen(found, np.int32)

    @cached_property
    def order(self) -> Ids:
        """A topological order of the lanes' orders and the dependencies; ties go to the earlier task.

        Raises:
            CyclicGraph: a task waits for itself.
        """
        order = topological_order(self.before, self.dependencies.source, self.dependencies.target)
        if len(order) < len(self):
            placed = np.zeros(len(self), np.bool_)
            placed[order] = True
            stuck = self.tasks[int(np.argmin(placed))]
            raise CyclicGraph(f"{stuck.name} on {stuck.lane} waits for itself")
        return frozen(order, np.int32)

    @cached_property
    def iterations(self) -> tuple[int, ...]:
        """The iterations that the tasks belong to, in order."""
        return tuple(np.unique(self.tasks.iteration).tolist())

    @cached_property
    def _arrival(self) -> Indices | None:
        """A stable sort of the dependencies by target; None if they are sorted already."""
        target = self.dependencies.target
        if bool((target[1:] >= target[:-1]).all()):
            return None
        return np.argsort(target, kind="stable")

    def _arriving(self, column: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        return column if self._arrival is None else frozen(column[self._arrival], column.dtype)

    @cached_property
    def incoming_offsets(self) -> Ids:
        """Dependencies ``incoming_offsets[i]`` to ``incoming_offsets[i + 1]`` of the columns below end at task i."""
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(np.bincount(self.dependencies.target, minlength=len(self)), out=offsets[1:])
        return frozen(offsets, np.int32)

    @cached_property
    def incoming_source(self) -> Ids:
        """Source task, sorted by target."""
        return self._arriving(self.dependencies.source)

    @cached_property
    def incoming_lag(self) -> Times:
        """Lag in µs, sorted by target."""
        return self._arriving(self.dependencies.lag_us)

    @cached_property
    def incoming_from_start(self) -> Flags:
        """True if the lag counts from the source's start, sorted by target."""
        return self._arriving(self.dependencies.from_start)

    @cached_property
    def incoming(self) -> tuple[tuple[Dependency, ...], ...]:
        """The dependencies of each task as objects: convenient for a few, but large in memory for a large graph."""
        found: list[list[Dependency]] = [[] for _ in range(len(self))]
        for dependency in self.dependencies:
            found[dependency.target].append(dependency)
        return tuple(map(tuple, found))

    @cached_property
    def visits(self) -> list[Visit]:
        """The tasks in order, in the form that interpreted code iterates fastest; large in memory for a large graph."""
        offsets, lane_of = self.incoming_offsets.tolist(), self.lane_of.tolist()
        columns = (self.incoming_source, self.incoming_lag, self.incoming_from_start)
        waits = tuple(zip(*(column.tolist() for column in columns), strict=True))
        return [
            (task, lane_of[task], waits[offsets[task] : offsets[task + 1]]) for task in self.order.tolist()
        ]
