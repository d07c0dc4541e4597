"""Daydream's simulation (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020, algorithm 1)."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

import numpy as np

from skyline.compiled import loop
from skyline.graph.build import main_lane
from skyline.graph.column import Times
from skyline.graph.graph import Graph
from skyline.graph.structure import Visit
from skyline.simulate.timeline import Timeline
from skyline.trace.record import Trace

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
