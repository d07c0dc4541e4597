"""Generated graphs of any size, similar to training steps, for measuring the simulator."""

from __future__ import annotations

import numpy as np

from skyline.graph.dependency import CAUSE, Cause, Dependencies
from skyline.graph.graph import Graph, Structure
from skyline.graph.task import KIND, PHASE, TaskKind, Tasks
from skyline.trace.record import Phase

_LANES = ("main", "autograd", "stream 7", "stream 20", "stream 24", "loader")
_PER_OPERATOR = 3
"""Tasks per operator: CPU work, the launch, the kernel."""
_OPERATORS_PER_STEP = 2000


def like_a_training_step(count: int, *, sorted_by_start: bool = True, seed: int = 0) -> Graph:
    """``count`` tasks in steps of about 6000: forward on one thread, backward on another, kernels on three streams.

    Launches precede their kernels. Streams sometimes wait for one another. Each step begins with a batch and ends with
    a wait for the GPU. Without ``sorted_by_start``, the tasks of a lane are consecutive, so that dependencies go in
    both directions and the order must be computed.
    """
    chance = np.random.default_rng(seed)
    operators = count // _PER_OPERATOR
    step = np.arange(operators) // _OPERATORS_PER_STEP
    within = np.arange(operators) % _OPERATORS_PER_STEP
    thread = (within >= _OPERATORS_PER_STEP // 2).astype(np.int32)
    stream = np.where(chance.random(operators) < 0.9, 2, chance.integers(3, 5, operators)).astype(np.int32)
    length = operators * _PER_OPERATOR
    lane = np.empty(length, np.int32)
    lane[0::3], lane[1::3], lane[2::3] = thread, thread, stream
    kind = np.empty(length, np.uint8)
    kind[0::3], kind[1::3], kind[2::3] = (KIND[k] for k in (TaskKind.CPU, TaskKind.LAUNCH, TaskKind.KERNEL))
    phase = np.repeat(np.where(thread == 0, PHASE[Phase.FORWARD], PHASE[Phase.BACKWARD]), 3).astype(np.uint8)
    durations, gaps = np.empty(length), np.zeros(length)
    durations[0::3] = chance.gamma(2.0, 5.0, operators)
    durations[1::3] = chance.gamma(4.0, 1.5, operators)
    durations[2::3] = chance.lognormal(2.5, 1.2, operators)
    gaps[0::3] = chance.exponential(3.0, operators)
    gaps[2::3] = 1.0

    first = np.flatnonzero(within == 0)[1:] * 3
    backward = np.flatnonzero(within == _OPERATORS_PER_STEP // 2) * 3
    other = np.flatnonzero((stream > 2) & (np.arange(operators) > 0))
    edges = [
        (np.arange(1, length, 3), np.arange(2, length, 3), Cause.LAUNCH, 5.0, True),
        (backward - 3, backward, Cause.HAND_OFF, 0.0, False),
        (first - 3, first, Cause.SYNC, 0.0, False),
        (first - 1, first, Cause.SYNC, 0.0, False),
        (other * 3 - 1, other * 3 + 2, Cause.EVENT, 0.0, False),
    ]
    dependencies = Dependencies.columns(
        np.concatenate([e[0] for e in edges]),
        np.concatenate([e[1] for e in edges]),
        np.concatenate([np.full(len(e[0]), CAUSE[e[2]], np.uint8) for e in edges]),
        np.concatenate([np.full(len(e[0]), e[3]) for e in edges]),
        np.concatenate([np.full(len(e[0]), e[4]) for e in edges]),
    )
    name = (chance.integers(0, 60, length)).astype(np.int32)
    columns = {
        "name": name,
        "lane": lane,
        "kind": kind,
        "phase": phase,
        "iteration": np.repeat(step, 3).astype(np.int32),
        "module": np.repeat(within // 20, 3).astype(np.int32),
    }
    if not sorted_by_start:
        by_lane = np.argsort(lane, kind="stable")
        place = np.empty(length, np.int32)
        place[by_lane] = np.arange(length)
        columns = {column: values[by_lane] for column, values in columns.items()}
        durations, gaps = durations[by_lane], gaps[by_lane]
        dependencies = Dependencies.columns(
            place[dependencies.source],
            place[dependencies.target],
            dependencies.cause,
            dependencies.lag_us,
            dependencies.from_start,
        )
    tasks = Tasks.columns(length, [f"operator {n}" for n in range(60)], _LANES, **columns)
    modules = tuple(f"layer{n // 10}.block{n % 10}" for n in range(_OPERATORS_PER_STEP // 20))
    return Graph(Structure(tasks, dependencies, modules), durations, gaps)


def again(graph: Graph) -> Graph:
    """A copy of the graph without cached results."""
    structure = graph.structure
    return Graph(
        Structure(structure.tasks, structure.dependencies, structure.modules), graph.durations, graph.gaps
    )
