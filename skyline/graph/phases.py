"""The time of each phase on one lane of a graph."""

from __future__ import annotations

from skyline.graph.graph import Graph
from skyline.trace.phase import Phase, PhaseTimes


def phase_times(graph: Graph, lane: str) -> PhaseTimes:
    """Milliseconds per iteration that the lane spends in each phase, gaps included, averaged over the iterations.

    On a GPU machine this is the script's own thread: a phase whose kernels are merely launched looks short
    there, and the phase that waits for them looks long.
    """
    spent: dict[Phase, float] = {}
    for task, duration, gap in zip(graph.tasks, graph.durations, graph.gaps, strict=True):
        if task.lane == lane:
            spent[task.phase] = spent.get(task.phase, 0.0) + duration + gap
    count = max(1, len(graph.iterations))
    return PhaseTimes.of({phase: time / count / 1e3 for phase, time in spent.items()})
