"""The step time of a run that goes on: the recorded iterations again and again."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

import numpy as np

from skyline.compiled import loop
from skyline.graph.graph import Graph
from skyline.graph.stitching import stitch
from skyline.simulate.engine import simulate

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
        # What one repetition leaves behind on an open lane competes with the next one.
        shorter, longer = (simulate(stitch(graph, n * iterations)).makespan_us for n in (8, 16))
        return (longer - shorter) / 8 / iterations / 1e3
    structure = graph.structure
    over = np.zeros(at_most)
    repeated = _repeat(
        4 * (len(graph) + len(structure.incoming_source)),
        structure.order,
        structure.lane_of,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        graph.durations,
        graph.gaps,
        _SETTLED,
        np.zeros(len(structure.lanes)),
        np.zeros(len(structure.lanes)),
        np.zeros(len(graph)),
        np.zeros(len(graph)),
        over,
    )
    if repeated < at_most:
        return float(over[repeated - 1] - over[repeated - 2]) / iterations / 1e3
    half = at_most // 2
    return float(over[-1] - over[half - 1]) / (at_most - half) / iterations / 1e3


@loop("iiiifbffx", writes="fffff")
def _repeat(
    order: Sequence[int],
    lane_of: Sequence[int],
    incoming_offsets: Sequence[int],
    incoming_source: Sequence[int],
    incoming_lag: Sequence[float],
    incoming_from_start: Sequence[bool],
    durations: Sequence[float],
    gaps: Sequence[float],
    settled: float,
    free: MutableSequence[float],
    free_before: MutableSequence[float],
    starts: MutableSequence[float],
    ends: MutableSequence[float],
    over: MutableSequence[float],
) -> int:
    """Fills ``over`` with the end of each repetition; gives how many there were until all lanes advanced alike."""
    for repetition in range(len(over)):
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
        latest = 0.0
        least = np.inf
        most = 0.0
        for lane in range(len(free)):
            step = free[lane] - free_before[lane]
            if free[lane] > 0.0:
                least = min(least, step)
            most = max(most, step)
            latest = max(latest, free[lane])
            free_before[lane] = free[lane]
        over[repetition] = latest
        if repetition > 0 and (most == 0.0 or most - least <= settled * most):
            return repetition + 1
    return len(over)
