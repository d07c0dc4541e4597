"""What a simulation gives: when every task runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skyline.graph.column import Ids, Times
from skyline.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Timeline:
    """Start and end of each task in µs from the start of the first; a gap follows its task's end.

    The other arrays come from an engine that changes the order on a lane: the task that ran before each one in
    its place (or -1), and an order in which tasks follow all that they waited for.
    """

    graph: Graph
    starts: Times
    ends: Times
    before_otherwise: Ids | None = None
    order_otherwise: Ids | None = None

    @cached_property
    def freed(self) -> Times:
        """When the lane of each task was free again, in µs: after its gap."""
        return self.ends + self.graph.gaps

    @property
    def before(self) -> Ids:
        """The task that ran before each one on its lane, or -1."""
        return self.graph.structure.before if self.before_otherwise is None else self.before_otherwise

    @property
    def order(self) -> Ids:
        """The tasks, each after all that it waited for."""
        return self.graph.structure.order if self.order_otherwise is None else self.order_otherwise

    @property
    def makespan_us(self) -> float:
        """From the first start to the end of the last task and its gap."""
        return float(self.freed.max(initial=0.0))

    def iteration_ends_us(self, lane: str | None = None) -> tuple[float, ...]:
        """When the work of each iteration is over, on one lane or on all."""
        iterations = self.graph.tasks.iteration
        freed = self.freed
        if lane is not None:
            structure = self.graph.structure
            if lane not in structure.lanes:
                return ()
            chosen = structure.lane_of == structure.lanes.index(lane)
            iterations, freed = iterations[chosen], freed[chosen]
        different, place = np.unique(iterations, return_inverse=True)
        ends = np.zeros(len(different))
        np.maximum.at(ends, place, freed)
        return tuple(ends.tolist())

    def iteration_ms(self, lane: str, skip: int = 1) -> float:
        """Milliseconds per iteration of ``lane`` in the steady state: the first ``skip`` ones are run-in."""
        return step_ms(self.iteration_ends_us(lane), skip)


def step_ms(ends_us: Sequence[float], skip: int = 1) -> float:
    """Milliseconds per iteration by the ends of all, without the first ``skip``; but of one alone by that one."""
    if not ends_us:
        return 0.0
    skip = min(skip, len(ends_us) - 1)
    begin = ends_us[skip - 1] if skip else 0.0
    return (ends_us[-1] - begin) / (len(ends_us) - skip) / 1e3
