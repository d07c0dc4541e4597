"""Tasks with their dependencies, durations and gaps.

Graphs that differ in times share one structure, with all derived columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Flags, Ids, Indices, Times, frozen, indices, sums
from skyline.graph.dependency import (
    CAUSE,
    NO_DEPENDENCIES,
    Cause,
    CyclicGraph,
    Dependencies,
    Dependency,
    topological_order,
)
from skyline.graph.task import ON_GPU, PHASES, Task, Tasks
from skyline.trace.record import CodeLine, PhaseTimes

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
    def launches(self) -> Dependencies:
        """The dependencies of GPU work on the calls that launched it."""
        edges, kind = self.dependencies, self.tasks.kind
        return edges.taken(
            (edges.cause == CAUSE[Cause.LAUNCH]) & ON_GPU[kind[edges.target]] & ~ON_GPU[kind[edges.source]]
        )

    @cached_property
    def visits(self) -> list[Visit]:
        """The tasks in order, in the form that interpreted code iterates fastest; large in memory for a large graph."""
        offsets, lane_of = self.incoming_offsets.tolist(), self.lane_of.tolist()
        columns = (self.incoming_source, self.incoming_lag, self.incoming_from_start)
        waits = tuple(zip(*(column.tolist() for column in columns), strict=True))
        return [
            (task, lane_of[task], waits[offsets[task] : offsets[task + 1]]) for task in self.order.tolist()
        ]


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


def phase_times(graph: Graph, lane: str) -> PhaseTimes:
    """Time that the lane spends in each phase, in ms per iteration, averaged, gaps included.

    On a GPU machine the lane is the script's own thread. A phase that only launches kernels looks short there, and
    the phase that waits for them looks long.
    """
    tasks = graph.tasks
    on_lane = tasks.lane == tasks.lane_code(lane)
    spent = sums(tasks.phase[on_lane], (graph.durations + graph.gaps)[on_lane], len(PHASES)).tolist()
    count = max(1, len(graph.iterations))
    return PhaseTimes.of({phase: time / count / 1e3 for phase, time in zip(PHASES, spent, strict=True)})


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


def scale(graph: Graph, chosen: Iterable[int], factor: npt.ArrayLike, *, gaps: bool = False) -> Graph:
    """Multiply the durations of the chosen tasks by ``factor``; with ``gaps``, also the CPU time after them.

    ``factor`` is one number, or one for each chosen task. The structure is shared.

    Raises:
        ValueError: a factor is negative or not finite.
    """
    factors = np.asarray(factor, np.float64)
    if not (np.isfinite(factors).all() and (factors >= 0).all()):
        raise ValueError("factors must be finite and not negative")
    places = indices(chosen)
    durations = graph.durations.copy()
    durations[places] *= factors
    if not gaps:
        return graph.with_times(durations=durations)
    after = graph.gaps.copy()
    after[places] *= factors
    return graph.with_times(durations=durations, gaps=after)


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
