"""Daydream's simulation (Zhu, Phanishayee, Pekhimenko, USENIX ATC 2020, algorithm 1)."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

import numpy as np

from skyline.compiled import loop
from skyline.graph.column import Flags, Ids, Times
from skyline.graph.graph import Graph
from skyline.graph.structure import Visit
from skyline.simulate.timeline import Timeline

_FEW = 2_000


def run(
    order: Ids | Sequence[int],
    lane_of: Ids | Sequence[int],
    incoming_offsets: Ids | Sequence[int],
    incoming_source: Ids | Sequence[int],
    incoming_lag: Times | Sequence[float],
    incoming_from_start: Flags | Sequence[bool],
    durations: Times,
    gaps: Times,
    lanes: int | None = None,
    free: Times | None = None,
) -> tuple[Times, Times]:
    """Start and end of each task, in µs: as soon as its lane is free and all that it waits for is done.

    Args:
        order: The tasks, each after the one before it on its lane and after all that it waits for.
        lane_of: For each task the number of its lane.
        incoming_offsets: The dependencies of task ``i`` stand from this place ``i`` to place ``i + 1``.
        incoming_source: For each dependency the task that is waited for.
        incoming_lag: How long after it.
        incoming_from_start: Whether that counts from its start, not from its end.
        durations: Of each task.
        gaps: How long its lane stays taken after each task.
        lanes: How many lanes there are, where that is known.
        free: When each lane is free before, and, changed in place, afterwards; from the start if not given.
    """
    count = len(durations)
    starts, ends = np.empty(count), np.empty(count)
    if free is None:
        free = np.zeros((max(lane_of, default=-1) + 1) if lanes is None else lanes)
    _pass(
        count + len(incoming_source),
        order,
        lane_of,
        incoming_offsets,
        incoming_source,
        incoming_lag,
        incoming_from_start,
        durations,
        gaps,
        free,
        starts,
        ends,
    )
    return starts, ends


def run_few(visits: list[Visit], lanes: int, durations: Times, gaps: Times) -> tuple[Times, Times]:
    """As ``run``, for graphs so small that getting to the arrays would take longer than simulating them."""
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


def is_few(count: int) -> bool:
    """Whether a graph of so many tasks is for ``run_few``: it is small, and nothing has been compiled yet."""
    return count < _FEW and not _pass.is_compiled


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
    left is one pass in that order, O(tasks + dependencies).
    """
    structure = graph.structure
    if is_few(len(structure)):
        few = run_few(structure.visits, len(structure.lanes), graph.durations, graph.gaps)
        return Timeline(graph, *few)
    starts, ends = run(
        structure.order,
        structure.lane_of,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        graph.durations,
        graph.gaps,
        len(structure.lanes),
    )
    return Timeline(graph, starts, ends)
