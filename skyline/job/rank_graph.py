"""One rank's graph, with its links to the other ranks."""

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
    """A graph of all work of the rank, or of only its collectives, with the work between them as lags."""

    graph: Graph
    exchange: Indices
    """The task of each of the rank's exchanges, -1 if the graph has none."""
    step_end: Indices
    """For each step the task whose start ends the step."""
    begin_us: float
    """The graph's time 0, in µs on the trace's clock."""
    pace: Times | None = None
    """For each exchange the factor of its transfer time in a what-if; None: as measured."""
    reduced: bool = False
    """True if work is only kept as lags."""


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """The work of a rank between its collectives, as the least time from one point to another.

    Points are numbered: 0 is the beginning, then one number per exchange, then one per end of a step. The
    time to an exchange ends at the rank's arrival. The time from an exchange begins at its end, or at the
    arrival with ``from_start``.
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
