"""One rank's graph, with what ties it to the other ranks."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices, Times
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.graph import Graph, Structure
from skyline.graph.task import KIND, PHASE, TaskKind, Tasks
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase


@dataclass(frozen=True, slots=True, eq=False)
class RankGraph:
    """A graph of everything the rank did, or of its collectives alone with the work between them as lags."""

    graph: Graph
    exchange: Indices
    """For each of the rank's exchanges its task, -1 where the graph has none."""
    step_end: Indices
    """For each step the task at whose start the step is over."""
    begin_us: float
    """When the graph's time 0 was, in µs on the trace's clock."""
    pace: Times | None = None
    """For each exchange how many times as long its transfer takes in a what-if; None: as measured."""
    reduced: bool = False
    """True if work is kept as lags only."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """The work of a rank between its collectives, as the least time from one point to another.

    Points are numbered: 0 is the beginning, then a number for each exchange, then one for each step's end.
    An exchange is reached when the rank arrives at it, and left when it ends; with ``from_start`` when it arrives.
    """

    source: Indices
    target: Indices
    lag_us: Times
    from_start: Flags


def linked(links: Links, took_us: Times, lane_of: Indices, lanes: tuple[str, ...], steps: int) -> Graph:
    """The graph of a rank's collectives (``took_us`` and lane of each) and the ends of its steps."""
    count = len(took_us)
    of_task = np.concatenate([[0], lane_of + 1, np.full(steps, len(lanes) + 1)]).astype(np.int32)
    tasks = Tasks.columns(
        1 + count + steps,
        ("begin", "collective", "step ends"),
        ("begin", *lanes, "steps"),
        name=np.concatenate([[0], np.full(count, 1), np.full(steps, 2)]),
        lane=of_task,
        kind=np.concatenate(
            [[KIND[TaskKind.CPU]], np.full(count, KIND[TaskKind.KERNEL]), np.full(steps, KIND[TaskKind.CPU])]
        ),
        phase=np.concatenate(
            [
                [PHASE[Phase.OTHER]],
                np.full(count, PHASE[Phase.COMMUNICATION]),
                np.full(steps, PHASE[Phase.OTHER]),
            ]
        ),
    )
    waits = Dependencies.columns(links.source, links.target, Cause.GIVEN, links.lag_us, links.from_start)
    return Graph(Structure(tasks, waits), np.concatenate([[0.0], took_us, np.zeros(steps)]))
