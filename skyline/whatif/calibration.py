"""Times of a recorded graph, brought to those of iterations that nothing recorded and nothing held up."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log

import numpy as np

from skyline.graph.calibrate import calibrate, scale_host_to, steadied
from skyline.graph.column import Times
from skyline.graph.graph import Graph, scale
from skyline.graph.merging import coalesce
from skyline.graph.part import PARTS, Part, parts_of
from skyline.interval import Interval
from skyline.simulate.engine import simulate, steady_step_ms
from skyline.trace.record import BareTimes
from skyline.whatif.constant import Constant
from skyline.whatif.cost.tried_iterations import TriedIterations

ROUNDING = 1e-6
"""A change by less than this share of a step is rounding."""
_ROUNDS = (8, 7, 6, 5, 4, 3, 2, 1, 1, 1)
"""Each makes one of so many parts of the correction that is left: the side that bounds the step may change on the way.
"""
_FITTED = 1e-5
"""A step as near as this to its time is not corrected, in the logarithm."""
_UNHELD = Constant.at(
    0.1,
    "quantile of a part's bare times that is the host's own: waiting for a GPU or a full queue only adds to it",
)
_MEASURED = (Part.LOADER, Part.BACKWARD, Part.OPTIMIZER)

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
    bare: BareTimes | None = None,
) -> Graph:
    """With the times that the recording inflated scaled so that the graph simulates to the bare iteration.

    ``bare`` is given where the script's thread was timed as it runs ahead of a GPU.
    """
    if len(recorded.structure.lanes) == 1:
        return calibrate(recorded, lane, parts_ms)
    unheld = recorded if bare is None else _unheld(recorded, lane, bare)
    return fitted(unheld, lane, iteration_ms.value, ahead)


def without_lines(graph: Graph) -> Graph:
    """The graph with neighbours of one kind, phase and iteration as one task each."""
    tasks = graph.tasks
    return coalesce(graph, (tasks.kind, tasks.work, tasks.iteration, tasks.phase))


def _unheld(graph: Graph, lane: str, bare: BareTimes) -> Graph:
    """The host as fast as its own bare times show it where nothing held it; recording never makes it quicker."""
    tasks, took = graph.tasks, graph.durations + graph.gaps
    chosen = np.flatnonzero(tasks.lane == tasks.lane_code(lane))
    part = parts_of(tasks)[chosen]
    recorded_ms = np.bincount(part, took[chosen], len(PARTS)) / 1e3 / max(1, len(graph.iterations))
    own_ms = np.zeros(len(PARTS))
    for one, samples in zip(_MEASURED, (bare.data_ms, bare.backward_ms, bare.optimizer_ms), strict=True):
        own_ms[PARTS.index(one)] = np.quantile(samples, _UNHELD.value) if samples else 0.0
    known = (own_ms > 0) & (recorded_ms > 0)
    # Batches are fetched by other code than launches work; what was not timed launches work, too.
    launching = known & (np.arange(len(PARTS)) != PARTS.index(Part.LOADER))
    rest = own_ms[launching].sum() / recorded_ms[launching].sum() if launching.any() else 1.0
    factors = np.divide(own_ms, recorded_ms, out=np.full(len(PARTS), rest), where=known)
    return scale(graph, chosen, np.minimum(1.0, factors)[part], gaps=True)


def host_spread(graph: Graph, lane: str, bare: BareTimes, step_ms: float) -> float:
    """The factor by which the host may be slower than in the calibrated graph, because its bare times scatter.

    Longer than the step it cannot be: then the step would be longer.
    """
    sums = np.sum([bare.data_ms, bare.backward_ms, bare.optimizer_ms], axis=0)
    own_ms = float(np.quantile(sums, _UNHELD.value)) if len(sums) else 0.0
    host = graph.tasks.lane == graph.tasks.lane_code(lane)
    host_ms = float((graph.durations + graph.gaps)[host].sum()) / 1e3 / max(1, len(graph.iterations))
    if own_ms <= 0 or host_ms <= 0:
        return 1.0
    return max(1.0, min(float(np.median(sums)) / own_ms, step_ms / host_ms))


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
