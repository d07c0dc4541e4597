"""The time of each phase on one lane of a graph."""

from __future__ import annotations

from skyline.graph.column import sums
from skyline.graph.graph import Graph
from skyline.graph.tasks import PHASES
from skyline.trace.phase import PhaseTimes


def phase_times(graph: Graph, lane: str) -> PhaseTimes:
    """Time that the lane spends in each phase, in ms per iteration, averaged, gaps included.

    On a GPU machine the lane is the script's own thread. A phase that only launches kernels looks short there, and
    the phase that waits for them looks long.
    """
    tasks = graph.tasks
    on_lane = tasks.lane == tasks.lane_code(lane)
    spent = sums(tasks.phase[on_lane], (graph.durations + graph.gaps)[on_lane], len(PHASES)).tolist()
    count = max(1, len(graph.iterations))
    return PhaseTimes.of({phase: time / count / 1e3 for phase, time in zip(PHASES, spent, strict=True)})
