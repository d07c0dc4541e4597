"""The step time of a run that goes on: the recorded iterations again and again."""

from __future__ import annotations

import numpy as np

from skyline.graph.graph import Graph
from skyline.graph.replication import stitch
from skyline.simulate.engine import run, simulate

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
