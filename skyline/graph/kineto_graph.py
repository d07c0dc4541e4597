"""What is known of a trace once it has become a graph."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.column import Ids, Times
from skyline.graph.graph import Graph
from skyline.graph.rules.constants import LaunchConstants


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredSteps:
    """The steps of the trace, by time: what they took, and the tasks without work that begin and end them."""

    number: Ids
    measured_us: Times
    first: Ids
    last: Ids

    def __len__(self) -> int:
        return len(self.number)

    def simulated_us(self, starts_us: Times) -> Times:
        """What each takes when the graph's tasks start at the given times."""
        return starts_us[self.last] - starts_us[self.first]

    @property
    def inner(self) -> slice:
        """Without the first, which inherits work from before the recording, and the last, which ends with it."""
        return slice(1, -1) if len(self) > 2 else slice(-1, None)


@dataclass(frozen=True, slots=True, eq=False)
class KinetoGraph:
    """A trace as a graph, and how the two relate."""

    graph: Graph
    steps: MeasuredSteps
    constants: LaunchConstants
    event: Ids
    """For each task the row of the trace that names it."""
    start_us: Times
    """When each task started by the trace's clock, waiting taken off: what a replay should give."""
    main: str
    """The lane of the script's own thread."""
    found: dict[str, int]
    """How often each rule applied, and what had to be clipped or guessed."""
