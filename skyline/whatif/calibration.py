"""Times of a recorded graph, brought to those of iterations that nothing recorded and nothing held up."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log

import numpy as np

from skyline.graph.calibrate import calibrate, scale_host_to, steadied
from skyline.graph.column import Times
from skyline.graph.graph import Graph, scale
from skyline.graph.merging import coalesce
from skyline.graph.part import Part
from skyline.interval import Interval
from skyline.simulate.engine import simulate, steady_step_ms
from skyline.whatif.cost.tried_iterations import TriedIterations

ROUNDING = 1e-6
"""A change by less than this share of a step is rounding."""
_ROUNDS = (8, 7, 6, 5, 4, 3, 2, 1, 1, 1)
"""Each makes one of so many parts of the correction that is left: the side that bounds the step may change on the way.
"""
_FITTED = 1e-5
"""A step as near as this to its time is not corrected, in the logarithm."""

REPETITIONS = 8
"""Of the recorded iterations; after as many, lanes that do not wait for one another tell which is the slowest."""


def settled(recorded: Graph, tried: TriedIterations | None) -> Graph:
    """Without hold-ups, and as it was tried where it was.

    Where lanes wait for one another, how long a task took may be what another took: all stays as it was.
    """
    if len(recorded.structure.lanes) > 1:
        return recorded
    return steadied(recorded) if tried is None else tried.settled(steadied(recorded))


def calibrated(
    recorded: Graph,
    lane: str,
    parts_ms: Mapping[Part, float],
    iteration_ms: Interval,
    *,
    ahead: bool,
) -> Graph:
    """With the times that the recording inflated scaled so that the graph simulates to the bare iteration.

    With ``ahead`` the script's thread runs ahead of a GPU, and its host takes its own time already.
    """
    if len(recorded.structure.lanes) == 1:
        return calibrate(recorded, lane, parts_ms)
    return fitted(recorded, lane, iteration_ms.value, ahead)


def without_lines(graph: Graph) -> Graph:
    """The graph with neighbours of one kind, phase and iteration as one task each."""
    tasks = graph.tasks
    return coalesce(graph, (tasks.kind, tasks.work, tasks.iteration, tasks.phase))


def fitted(graph: Graph, lane: str, target_ms: float, ahead: bool) -> Graph:
    """The host and all else scaled by the two factors nearest to 1 that make the step as long as it was bare.

    Of a step that waits for its GPU the time does not tell how fast the host is, and the other way round. The
    elasticity tells how much of the step is the host's: each side takes part in the correction by its own share. It
    is measured over the part of the correction that is made with it, for a host that is about as busy as the GPU bounds
    the step on one side of this point only.
    """
    host = graph.tasks.lane == graph.tasks.lane_code(lane)
    for left in _ROUNDS:
        now_ms = simulated_ms(graph, lane, ahead)
        if now_ms <= 0 or target_ms <= 0 or abs(part := log(target_ms / now_ms) / left) * left < _FITTED:
            break
        changed_ms = simulated_ms(scale_host_to(graph, lane, exp(part)), lane, ahead)
        own = min(1.0, max(0.0, log(changed_ms / now_ms) / part))
        whole = part / (own * own + (1 - own) * (1 - own))
        factors: Times = np.where(host, exp(whole * own), exp(whole * (1 - own)))
        graph = scale(graph, np.arange(len(graph)), factors, gaps=True)
    return graph


def simulated_ms(graph: Graph, lane: str, ahead: bool) -> float:
    """Ms per iteration in a run that goes on: of the busiest lane where the script's thread runs ahead of the GPU."""
    return steady_step_ms(graph, at_most=REPETITIONS) if ahead else simulate(graph).iteration_ms(lane)
