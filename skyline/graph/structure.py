"""All of a graph but its times: shared by the graphs that differ in times, with what is worked out from it once."""

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
"""A task as a simulation comes by: its lane, and of each dependency the source, the lag and whether from its start."""


@dataclass(frozen=True, eq=False, init=False)
class Structure:
    """Tasks, what waits for what, and the names of layers and lines; the order found is kept.

    Tasks of a lane run in the order in which they stand in ``tasks``. ``modules`` and ``lines`` are what the
    columns ``module``, ``line`` and ``call_line`` index; both may be empty where nobody knows. What is worked
    out from these is worked out when it is first asked for.
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
        """With other tasks or other dependencies, under the same names of layers and lines."""
        made = Structure(
            self.tasks if tasks is None else tasks,
            self.dependencies if dependencies is None else dependencies,
            self.modules,
            self.lines,
        )
        if tasks is None:
            # What follows from the tasks alone need not be found again.
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
        """All tasks lane by lane, on each lane in the order in which they run."""
        lane = self.lane_of
        # Narrow keys are sorted by their digits, which takes a fifth of the time.
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
        """A topological order of the lanes' orders and the dependencies; ties go to what stands first.

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
        """The dependencies sorted by target, as they were given within a target; none where they are so already."""
        target = self.dependencies.target
        if bool((target[1:] >= target[:-1]).all()):
            return None
        return np.argsort(target, kind="stable")

    def _arriving(self, column: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
        return column if self._arrival is None else frozen(column[self._arrival], column.dtype)

    @cached_property
    def incoming_offsets(self) -> Ids:
        """Dependencies ``incoming_offsets[i]`` to ``incoming_offsets[i + 1]`` of the next columns end at task i."""
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(np.bincount(self.dependencies.target, minlength=len(self)), out=offsets[1:])
        return frozen(offsets, np.int32)

    @cached_property
    def incoming_source(self) -> Ids:
        """By target: what is waited for."""
        return self._arriving(self.dependencies.source)

    @cached_property
    def incoming_lag(self) -> Times:
        """By target: how long after, in µs."""
        return self._arriving(self.dependencies.lag_us)

    @cached_property
    def incoming_from_start(self) -> Flags:
        """By target: whether the lag counts from the source's start."""
        return self._arriving(self.dependencies.from_start)

    @cached_property
    def incoming(self) -> tuple[tuple[Dependency, ...], ...]:
        """The dependencies of each task as objects: handy for a few, and a heap of memory for a large graph."""
        found: list[list[Dependency]] = [[] for _ in range(len(self))]
        for dependency in self.dependencies:
            found[dependency.target].append(dependency)
        return tuple(map(tuple, found))

    @cached_property
    def visits(self) -> list[Visit]:
        """The tasks in order, as interpreted code walks them fastest; of a large graph they fill the memory."""
        offsets, lane_of = self.incoming_offsets.tolist(), self.lane_of.tolist()
        columns = (self.incoming_source, self.incoming_lag, self.incoming_from_start)
        waits = tuple(zip(*(column.tolist() for column in columns), strict=True))
        return [
            (task, lane_of[task], waits[offsets[task] : offsets[task + 1]]) for task in self.order.tolist()
        ]
