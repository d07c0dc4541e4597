"""How far the graph, simulated as recorded, is from what was recorded."""

from __future__ import annotations

from skyline.graph.build import main_lane
from skyline.graph.graph import Graph
from skyline.simulate.engine import simulate
from skyline.trace.record import Trace


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
