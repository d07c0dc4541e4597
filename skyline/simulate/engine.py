"""The simulation of Daydream (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020, algorithm 1)."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skyline.compiled import loop
from skyline.graph.build import main_lane
from skyline.graph.column import Ids, Times
from skyline.graph.graph import Graph, Structure, Visit
from skyline.graph.replication import stitch
from skyline.trace.record import Trace


@dataclass(frozen=True, eq=False)
class Timeline:
    """Start and end of each task in µs, counted from the start of the first task. A gap follows a task's end.

    The other arrays come from an engine that changes the order on a lane: for each task its predecessor on
    the lane (or -1), and an order in which each task follows everything that it waited for.
    """

    graph: Graph
    starts: Times
    ends: Times
    before_otherwise: Ids | None = None
    order_otherwise: Ids | None = None

    @cached_property
    def freed(self) -> Times:
        """The time in µs at which the lane of each task is free again, after the task's gap."""
        return self.ends + self.graph.gaps

    @property
    def before(self) -> Ids:
        """For each task its predecessor on its lane, or -1."""
        return self.graph.structure.before if self.before_otherwise is None else self.before_otherwise

    @property
    def order(self) -> Ids:
        """The tasks in an order in which each follows everything that it waited for."""
        return self.graph.structure.order if self.order_otherwise is None else self.order_otherwise

    @property
    def makespan_us(self) -> float:
        """Time in µs from the first start to the end of the last task and its gap."""
        return float(self.freed.max(initial=0.0))

    def iteration_ends_us(self, lane: str | None = None) -> tuple[float, ...]:
        """The time in µs at which the work of each iteration ends, on one lane or on all."""
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
        """Milliseconds per iteration of ``lane`` in the steady state, without the first ``skip`` iterations."""
        return step_ms(self.iteration_ends_us(lane), skip)


def step_ms(ends_us: Sequence[float], skip: int = 1) -> float:
    """Milliseconds per iteration from the end of each, without the first ``skip``. A single iteration counts itself."""
    if not ends_us:
        return 0.0
    skip = min(skip, len(ends_us) - 1)
    begin = ends_us[skip - 1] if skip else 0.0
    return (ends_us[-1] - begin) / (len(ends_us) - skip) / 1e3


_FEW = 2_000
"""Number of tasks below which preparing the arrays of a graph takes longer than its simulation."""


def run(graph: Graph, free: Times) -> tuple[Times, Times]:
    """Start and end of each task, in µs. A task starts when its lane is free and everything it waits for is done.

    ``free`` holds the time at which each lane becomes free. It is updated in place.
    """
    structure, count = graph.structure, len(graph)
    if _is_in_turn(structure):
        return _in_turn(graph, free)
    starts, ends = np.empty(count), np.empty(count)
    _pass(
        count + len(structure.incoming_source),
        structure.order,
        structure.lane_of,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        graph.durations,
        graph.gaps,
        free,
        starts,
        ends,
    )
    return starts, ends


def _is_in_turn(structure: Structure) -> bool:
    """True if the tasks run one after another: on one lane, without dependencies."""
    return len(structure.lanes) == 1 and not len(structure.dependencies)


def _in_turn(graph: Graph, free: Times) -> tuple[Times, Times]:
    """The same as ``run`` for one lane without dependencies. The sum adds the same numbers in the same order."""
    moments = np.empty(2 * len(graph) + 1)
    moments[0], moments[1::2], moments[2::2] = free[0], graph.durations, graph.gaps
    np.cumsum(moments, out=moments)
    free[0] = moments[-1]
    return moments[:-1:2].copy(), moments[1::2].copy()


def run_few(visits: list[Visit], lanes: int, durations: Times, gaps: Times) -> tuple[Times, Times]:
    """The same as ``run``, with lists, for small graphs."""
    starts = [0.0] * len(visits)
    ends = [0.0] * len(visits)
    free = [0.0] * lanes
    lasts, rests = durations.tolist(), gaps.tolist()
    for task, lane, incoming in visits:
        start = free[lane]
        for source, lag, from_start in incoming:
            ready = (starts[source] if from_start else ends[source]) + lag
            if ready > start:  # noqa: PLR1730  max() is a call
                start = ready
        starts[task] = start
        ends[task] = end = start + lasts[task]
        free[lane] = end + rests[task]
    return np.array(starts), np.array(ends)


@loop("iiiifbff", writes="fff")
def _pass(
    order: Sequence[int],
    lane_of: Sequence[int],
    incoming_offsets: Sequence[int],
    incoming_source: Sequence[int],
    incoming_lag: Sequence[float],
    incoming_from_start: Sequence[bool],
    durations: Sequence[float],
    gaps: Sequence[float],
    free: MutableSequence[float],
    starts: MutableSequence[float],
    ends: MutableSequence[float],
) -> int:
    for index in order:
        lane = lane_of[index]
        start = free[lane]
        for place in range(incoming_offsets[index], incoming_offsets[index + 1]):
            source = incoming_source[place]
            since = starts[source] if incoming_from_start[place] else ends[source]
            ready = since + incoming_lag[place]
            if ready > start:  # noqa: PLR1730  max() is a call
                start = ready
        starts[index] = start
        end = start + durations[index]
        ends[index] = end
        free[lane] = end + gaps[index]
    return 0


def simulate(graph: Graph) -> Timeline:
    """Start every task as soon as its lane is free and everything it waits for is done.

    The tasks of a lane keep their order, so a shorter task never makes the total longer. The ready heap of
    the algorithm runs once per structure (``Structure.order``). The rest is one pass in that order, O(tasks +
    dependencies). Lanes whose tasks have priorities have no order. A graph with such a lane is scheduled
    (``skyline.simulate.scheduling``).
    """
    if graph.priorities is not None:
        from skyline.simulate.scheduling import schedule

        return schedule(graph)
    structure = graph.structure
    if len(structure) < _FEW and not _is_in_turn(structure) and not _pass.is_compiled:
        few = run_few(structure.visits, len(structure.lanes), graph.durations, graph.gaps)
        return Timeline(graph, *few)
    return Timeline(graph, *run(graph, np.zeros(len(structure.lanes))))


def replay_error(graph: Graph, trace: Trace) -> float:
    """The mean of |simulated - recorded| / recorded over the recorded iterations, for the graph of a trace.

    On a single CPU lane every duration and gap is taken as measured. The error is then a consistency check,
    which shows only that no recorded time was lost or counted twice. It is no evidence for a what-if. With a
    GPU, launch latency and stream turnaround are one number each for the whole trace, and the simulation
    computes all waiting. The error then shows how well the dependencies explain the run.
    """
    ends = simulate(graph).iteration_ends_us(main_lane(trace))
    errors: list[float] = []
    begin = 0.0
    for mark, end in zip(trace.iterations, ends, strict=False):
        recorded = mark.end_us - mark.start_us
        if recorded > 0:
            errors.append(abs((end - begin) - recorded) / recorded)
        begin = end
    return sum(errors) / len(errors) if errors else 0.0


_SETTLED = 1e-9
"""Relative difference between the advances of lanes below which their distances count as constant."""


def steady_step_ms(graph: Graph, *, at_most: int = 50) -> float:
    """Milliseconds per iteration in the steady state, if the iterations repeat on every lane.

    A single iteration begins on an idle GPU and ends with an empty queue. In a run, the CPU works on the next
    step while the GPU finishes the current one. The graph is repeated until all lanes advance by the same
    time per repetition: from then on nothing changes. If lanes that do not wait for each other have different
    speeds, this never happens. After ``at_most`` repetitions, the later half then gives the time of the
    slowest lane.
    """
    iterations = max(1, len(graph.iterations))
    at_most = max(2, at_most)
    if graph.priorities is not None:
        # Work that one repetition leaves on a lane without an order competes with the next one.
        shorter, longer = (simulate(stitch(graph, n * iterations)).makespan_us for n in (8, 16))
        return (longer - shorter) / 8 / iterations / 1e3
    over = _repetitions(graph, at_most)
    if len(over) < at_most:
        return (over[-1] - over[-2]) / iterations / 1e3
    half = at_most // 2
    return (over[-1] - over[half - 1]) / (at_most - half) / iterations / 1e3


def _repetitions(graph: Graph, at_most: int) -> list[float]:
    """The ends of repetitions in µs, until all lanes advance equally. Each starts where the previous one ends."""
    free = np.zeros(len(graph.structure.lanes))
    over: list[float] = []
    while len(over) < at_most:
        before = free.copy()
        run(graph, free)
        over.append(float(free.max(initial=0.0)))
        advances = (free - before)[free > 0]
        most = float(advances.max(initial=0.0))
        if len(over) > 1 and (most == 0.0 or most - float(advances.min()) <= _SETTLED * most):
            break
    return over
