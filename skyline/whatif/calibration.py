"""Times of a recorded graph, brought to those of iterations that nothing recorded and nothing held up."""

from __future__ import annotations

from collections.abc import Mapping

from skyline.graph.calibrate import calibrate, scale_host_to
from skyline.graph.coalescing import coalesce
from skyline.graph.graph import Graph
from skyline.graph.outlier_removal import steadied
from skyline.graph.part import Part
from skyline.interval import Interval
from skyline.simulate.engine import simulate
from skyline.simulate.steady import steady_step_ms
from skyline.whatif.cost.tried_iterations import TriedIterations

_MOST_HALVINGS = 30
_ABOUT = 0.05
"""Kernels differ by as much between the recorded iterations and the bare ones."""

_TENTH = 0.1
_HAS_ROOM = 0.2
"""Of what a step changes where the host alone makes it: below this share it waits for its GPU."""

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
    recorded: Graph, lane: str, parts_ms: Mapping[Part, float], iteration_ms: Interval, *, ahead: bool
) -> Graph:
    """With the host's work scaled so that the graph simulates to the bare iteration."""
    if len(recorded.structure.lanes) > 1:
        return _fit_host(recorded, lane, iteration_ms.value, ahead)
    return calibrate(recorded, lane, parts_ms)


def without_lines(graph: Graph) -> Graph:
    """The graph with neighbours of one kind, phase and iteration as one task each."""
    tasks = graph.tasks
    return coalesce(graph, (tasks.kind, tasks.work, tasks.iteration, tasks.phase))


def _fit_host(graph: Graph, lane: str, target_ms: float, ahead: bool) -> Graph:
    """Scale the host's work by the factor with which the graph simulates to the bare iteration time.

    Recording slows the host and not the kernels. A step that waits for its GPU does not get shorter however little
    the host does, nor longer as long as the host has room: where the factor makes next to no difference and the
    simulated time is about the bare one, the host keeps the time that was recorded.
    """

    def ms(factor: float) -> float:
        return simulated_ms(scale_host_to(graph, lane, factor), lane, ahead)

    now_ms = simulated_ms(graph, lane, ahead)
    low, high = (1.0, 4.0) if now_ms <= target_ms else (0.25, 1.0)
    if ahead and abs(now_ms - target_ms) <= _ABOUT * target_ms:
        # Of a host that has no room a tenth of its time is nearly a tenth of the step.
        changed_ms = abs(ms(1.0 + _TENTH if low == 1.0 else 1.0 - _TENTH) - now_ms)
        if changed_ms < _HAS_ROOM * _TENTH * now_ms:
            return graph
    for _ in range(_MOST_HALVINGS):
        middle = (low + high) / 2
        if ms(middle) > target_ms:
            high = middle
        else:
            low = middle
    return scale_host_to(graph, lane, (low + high) / 2)


def simulated_ms(graph: Graph, lane: str, ahead: bool) -> float:
    """Ms per iteration in a run that goes on: of the busiest lane where the script's thread runs ahead of the GPU."""
    return steady_step_ms(graph, at_most=REPETITIONS) if ahead else simulate(graph).iteration_ms(lane)
