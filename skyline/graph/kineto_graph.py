"""A trace converted to a graph, and the relation between the two."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.column import Ids, Times
from skyline.graph.graph import Graph
from skyline.graph.rules.constants import LaunchConstants


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSteps:
    """The steps of the trace in time order: durations, and the zero-length tasks that mark begin and end."""

    number: Ids
    measured_us: Times
    first: Ids
    last: Ids

    def __len__(self) -> int:
        return len(self.number)

    def simulated_us(self, starts_us: Times) -> Times:
        """The duration of each step, in µs, for given start times of the graph's tasks."""
        return starts_us[self.last] - starts_us[self.first]

    @property
    def inner(self) -> slice:
        """All steps except the first, which inherits earlier work, and the last, which ends with the recording."""
        return slice(1, -1) if len(self) > 2 else slice(-1, None)


@dataclass(frozen=True, slots=True, eq=False)
class KinetoGraph:
    """A graph of a trace, and how the two relate."""

    graph: Graph
    steps: MeasuredSteps
    constants: LaunchConstants
    event: Ids
    """For each task the trace row that gives it its name."""
    start_us: Times
    """Start of each task, in µs of the trace's clock and without waiting; a replay should reproduce it."""
    main: str
    """The lane of the script's own thread."""
    found: dict[str, int]
    """Number of applications of each rule, and of clipped or guessed items."""
