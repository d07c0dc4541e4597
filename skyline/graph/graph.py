"""Tasks, what they wait for, and how long they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from heapq import heapify, heappop, heappush

from skyline.graph.task import Task


class Cause(str, Enum):
    """Why a task waits for another one on a different lane. The order on a lane needs no dependency."""

    LAUNCH = "launch"
    """A kernel starts no earlier than the launch that asked for it, plus a latency."""
    SYNC = "sync"
    """A synchronising call returns no earlier than the work it waits for."""
    LOADER = "loader"
    """A fetch waits for the worker that makes the batch; a worker waits for room in its queue."""
    HAND_OFF = "hand-off"
    """Work on one CPU thread was started by another thread."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """``target`` starts no earlier than ``lag_us`` after ``source``: after its end, or after its start."""

    source: int
    target: int
    cause: Cause
    lag_us: float = 0.0
    from_start: bool = False


class CyclicGraph(ValueError):
    """The dependencies contradict the order of the tasks on their lanes."""


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """All of a graph but its times. Graphs that differ in times share one, and with it the order found once.

    Tasks of a lane run in the order in which they stand in ``tasks``. ``order`` is a topological order of
    both that and the dependencies; ``before`` is for each task its predecessor on its lane, or -1.
    """

    tasks: tuple[Task, ...]
    dependencies: tuple[Dependency, ...] = ()
    lanes: tuple[str, ...] = field(init=False)
    lane_of: tuple[int, ...] = field(init=False)
    before: tuple[int, ...] = field(init=False)
    incoming: tuple[tuple[Dependency, ...], ...] = field(init=False)
    order: tuple[int, ...] = field(init=False)
    iterations: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        lanes: dict[str, int] = {}
        last: list[int] = []
        lane_of: list[int] = []
        before: list[int] = []
        for index, task in enumerate(self.tasks):
            lane = lanes.setdefault(task.lane, len(lanes))
            if lane == len(last):
                last.append(-1)
            lane_of.append(lane)
            before.append(last[lane])
            last[lane] = index
        incoming: dict[int, list[Dependency]] = {}
        for dependency in self.dependencies:
            incoming.setdefault(dependency.target, []).append(dependency)
        fill = object.__setattr__
        fill(self, "lanes", tuple(lanes))
        fill(self, "lane_of", tuple(lane_of))
        fill(self, "before", tuple(before))
        fill(self, "incoming", tuple(tuple(incoming.get(index, ())) for index in range(len(self.tasks))))
        fill(self, "iterations", tuple(sorted({task.iteration for task in self.tasks})))
        fill(self, "order", self._topological_order())

    def _topological_order(self) -> tuple[int, ...]:
        """Kahn's algorithm with a heap, so that ties go to the task that stands first and runs compare."""
        waiting = [
            len(arriving) + (before >= 0) for arriving, before in zip(self.incoming, self.before, strict=True)
        ]
        leaving: list[list[int]] = [[] for _ in self.tasks]
        for index, before in enumerate(self.before):
            if before >= 0:
                leaving[before].append(index)
        for dependency in self.dependencies:
            leaving[dependency.source].append(dependency.target)
        ready = [index for index, count in enumerate(waiting) if not count]
        heapify(ready)
        order: list[int] = []
        while ready:
            index = heappop(ready)
            order.append(index)
            for target in leaving[index]:
                waiting[target] -= 1
                if not waiting[target]:
                    heappush(ready, target)
        if len(order) < len(self.tasks):
            stuck = next(task for task, count in zip(self.tasks, waiting, strict=True) if count)
            raise CyclicGraph(f"{stuck.name} on {stuck.lane} waits for itself")
        return tuple(order)


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A structure with times in µs, one duration and one gap per task.

    The gap of a CPU task is the untraced time after it on its lane; it stays when other work is removed. The
    gap of a GPU task is only the turnaround of its stream: idle time is never stored, it re-emerges from the
    simulation.
    """

    structure: Structure
    durations: tuple[float, ...]
    gaps: tuple[float, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in the order of ``durations`` and ``gaps``."""
        return self.structure.tasks

    @property
    def iterations(self) -> tuple[int, ...]:
        """The iterations that the graph holds, in order."""
        return self.structure.iterations

    def select(self, wanted: Callable[[Task], bool]) -> tuple[int, ...]:
        """The indices of the tasks for which ``wanted`` is true."""
        return tuple(index for index, task in enumerate(self.tasks) if wanted(task))

    def scale(self, chosen: Iterable[int], factor: float, *, gaps: bool = False) -> Graph:
        """The chosen tasks take ``factor`` times as long; with ``gaps`` so does the CPU time after them."""
        return self.scale_each(dict.fromkeys(chosen, factor), gaps=gaps)

    def scale_each(self, factors: Mapping[int, float], *, gaps: bool = False) -> Graph:
        """As ``scale``, with a factor of its own for each task."""
        durations = list(self.durations)
        after = list(self.gaps)
        for index, factor in factors.items():
            durations[index] *= factor
            if gaps:
                after[index] *= factor
        return replace(self, durations=tuple(durations), gaps=tuple(after))

    def insert(
        self,
        task: Task,
        duration_us: float,
        *,
        at: int,
        dependencies: Sequence[Dependency] = (),
        gap_us: float = 0.0,
    ) -> Graph:
        """With one more task, standing at index ``at``; ``dependencies`` use the indices of the new graph."""
        shifted = tuple(
            replace(
                dependency,
                source=dependency.source + (dependency.source >= at),
                target=dependency.target + (dependency.target >= at),
            )
            for dependency in self.structure.dependencies
        )
        tasks = (*self.tasks[:at], task, *self.tasks[at:])
        return Graph(
            Structure(tasks, (*shifted, *dependencies)),
            (*self.durations[:at], duration_us, *self.durations[at:]),
            (*self.gaps[:at], gap_us, *self.gaps[at:]),
        )

    def relane(self, lanes: Mapping[int, str], dependencies: Sequence[Dependency] = ()) -> Graph:
        """The given tasks run on other lanes, under the old dependencies and the further ones."""
        tasks = tuple(
            replace(task, lane=lanes[index]) if index in lanes else task
            for index, task in enumerate(self.tasks)
        )
        return replace(self, structure=Structure(tasks, (*self.structure.dependencies, *dependencies)))
