"""Daydream's simulation (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020, algorithm 1)."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skyline.compiled import loop
from skyline.graph.build import main_lane
from skyline.graph.column import Ids, Times
from skyline.graph.graph import Graph, Visit
from skyline.graph.replication import stitch
from skyline.trace.record import Trace


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


_FEW = 2_000
"""Tasks of a graph so small that getting to its arrays would take longer than simulating it."""


def run(graph: Graph, free: Times) -> tuple[Times, Times]:
    """Start and end of each task, in µs: as soon as its lane is free and all that it waits for is done.

    ``free`` tells when each lane is free before; it is changed, in place, to when it is free afterwards.
    """
    structure, count = graph.structure, len(graph)
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


def run_few(visits: list[Visit], lanes: int, durations: Times, gaps: Times) -> tuple[Times, Times]:
    """As ``run``, by lists, for small graphs."""
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
    """Start every task as soon as its lane is free and all that it waits for is done.

    The tasks of a lane keep their order, so that taking less time for one task never makes the whole take
    longer. The ready heap of the algorithm has been run once per structure (``Structure.order``); what is
    left is one pass in that order, O(tasks + dependencies). Lanes whose tasks have priorities have no order:
    a graph with such a lane is scheduled (``skyline.simulate.scheduling``).
    """
    if graph.priorities is not None:
        from skyline.simulate.scheduling import schedule

        return schedule(graph)
    structure = graph.structure
    if len(structure) < _FEW and not _pass.is_compiled:
        few = run_few(structure.visits, len(structure.lanes), graph.durations, graph.gaps)
        return Timeline(graph, *few)
    return Timeline(graph, *run(graph, np.zeros(len(structure.lanes))))


def replay_error(graph: Graph, trace: Trace) -> float:
    """The mean over the recorded iterations of |simulated - recorded| / recorded, of the graph built from a trace.

    On a single CPU lane every duration and gap is taken as measured, so this says only that no recorded
    time was lost or counted twice: a consistency check, not evidence that a what-if is right. With a GPU,
    launch latency and stream turnaround are one number each for the whole trace and waiting re-emerges, so
    there it tells how well the dependencies explain the run.
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
"""Lanes that advance by lengths which differ by less than this share of the length keep their distances."""


def steady_step_ms(graph: Graph, *, at_most: int = 50) -> float:
    """Ms per iteration once the run has settled, its iterations repeated one after another on every lane.

    A single iteration begins on an idle GPU and ends with an empty queue; in a run, the CPU works on the next
    step while the GPU finishes this one. The graph is repeated until every lane takes up the next repetition as
    long after the previous one as all others do: from then on nothing changes any more. Where lanes that do not
    wait for one another go at different speeds this never comes, and after ``at_most`` repetitions the later half
    of them tells what the slowest of them takes.
    """
    iterations = max(1, len(graph.iterations))
    at_most = max(2, at_most)
    if graph.priorities is not None:
        # Work that one repetition leaves on an open lane competes with the next one.
        shorter, longer = (simulate(stitch(graph, n * iterations)).makespan_us for n in (8, 16))
        return (longer - shorter) / 8 / iterations / 1e3
    over = _repetitions(graph, at_most)
    if len(over) < at_most:
        return (over[-1] - over[-2]) / iterations / 1e3
    half = at_most // 2
    return (over[-1] - over[half - 1]) / (at_most - half) / iterations / 1e3


def _repetitions(graph: Graph, at_most: int) -> list[float]:
    """The end of each repetition, in µs, until all lanes advance alike; each begins where the last left its lanes."""
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
