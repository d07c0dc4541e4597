"""Placement as an integer program, solved by HiGHS: another way to the optimum of ``skyline.plan.placement``.

It follows the program of Tarnawski et al. (2020) for contiguous stages. It needs SciPy (extra ``solver``).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from skyline.errors import UsageError
from skyline.plan.placement import LayerGraph, Placement, StageLimits, stage_cost

_TIME_LIMIT_S = 60.0
_SOLVED, _INFEASIBLE = 0, 2


def place_by_program(
    graph: LayerGraph, limits: StageLimits, time_limit_s: float = _TIME_LIMIT_S
) -> Placement | None:
    """The placement whose slowest stage is fastest. None if no placement fits.

    Raises:
        UsageError: SciPy is not installed, or the solver did not end within ``time_limit_s``.
    """
    try:
        optimize: Any = import_module("scipy.optimize")
        sparse: Any = import_module("scipy.sparse")
    except ImportError:
        raise UsageError(
            "the integer program needs SciPy", hint="Install it with: pip install 'skyline-profiler[solver]'"
        ) from None
    program = _Program(graph, limits)
    program.state()
    matrix: Any = sparse.csr_array(
        (program.values, (program.rows, program.columns)), shape=(len(program.low), program.size)
    )
    aim = np.zeros(program.size)
    aim[program.slowest] = 1.0
    continuous = np.isin(np.arange(program.size), program.continuous)
    solution: Any = optimize.milp(
        aim,
        integrality=np.where(continuous, 0, 1),
        bounds=optimize.Bounds(0.0, np.where(continuous, np.inf, 1.0)),
        constraints=optimize.LinearConstraint(matrix, program.low, program.high),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    if solution.status == _INFEASIBLE:
        return None
    if solution.status != _SOLVED:
        raise UsageError(
            f"the solver found no optimum: {solution.message}", hint="Take fewer layers or fewer stages."
        )
    chosen = np.asarray(solution.x[: program.layers * program.stages]).reshape(program.layers, -1)
    stages = tuple(tuple(np.flatnonzero(chosen[:, stage] > 0.5).tolist()) for stage in range(program.stages))
    costs = [
        stage_cost([graph.layers[one] for one in layers], limits, stage)
        for stage, layers in enumerate(stages)
    ]
    return Placement(stages, tuple(again for _, again in costs), max(time_us for time_us, _ in costs))


class _Program:
    """Rows of linear constraints. Variables: layer on stage, stage recomputes, layer recomputes on stage, and sizes.

    Times and bytes are divided by their totals, because the solver's tolerances are absolute.
    """

    def __init__(self, graph: LayerGraph, limits: StageLimits) -> None:
        self.graph, self.limits = graph, limits
        self.layers, self.stages = len(graph.layers), limits.stages
        pairs = self.layers * self.stages
        self.recomputes = pairs
        self.again = pairs + self.stages
        self.largest = self.again + pairs
        """The activations of the largest layer in a stage that recomputes."""
        self.slowest = self.largest + self.stages
        self.size = self.slowest + 1
        self.continuous = [*range(self.largest, self.size)]
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def placed(self, layer: int, stage: int) -> int:
        """The variable that is 1 if the layer is on the stage."""
        return layer * self.stages + stage

    def state(self) -> None:
        """Add all constraints."""
        layers, stages = range(self.layers), range(self.stages)
        for layer in layers:
            self._add([(self.placed(layer, stage), 1.0) for stage in stages], 1.0, 1.0)
        for before, after in self.graph.edges:
            # A layer is never on an earlier stage than a layer that it needs.
            for stage in stages:
                so_far = range(stage + 1)
                terms = [(self.placed(before, one), 1.0) for one in so_far]
                self._add([*terms, *((self.placed(after, one), -1.0) for one in so_far)], 0.0, np.inf)
        for stage in stages:
            self._add([(self.placed(layer, stage), 1.0) for layer in layers], 1.0, np.inf)
            self._stage(stage)

    def _stage(self, stage: int) -> None:
        held = self.limits.held[stage]
        us = sum(one.time_us + one.again_us for one in self.graph.layers) or 1.0
        scale = self.limits.room_bytes or 1.0
        recomputes, largest = self.recomputes + stage, self.largest + stage
        if not self.limits.recompute:
            self._add([(recomputes, 1.0)], 0.0, 0.0)
        time = [(self.slowest, -1.0)]
        memory = [(largest, 1.0)]
        for number, layer in enumerate(self.graph.layers):
            placed, again = self.placed(number, stage), self.again + self.placed(number, stage)
            # again = placed and recomputes
            self._add([(again, 1.0), (placed, -1.0)], -np.inf, 0.0)
            self._add([(again, 1.0), (recomputes, -1.0)], -np.inf, 0.0)
            self._add([(again, 1.0), (placed, -1.0), (recomputes, -1.0)], -1.0, np.inf)
            self._add([(largest, 1.0), (again, -layer.kept_bytes / scale)], 0.0, np.inf)
            time += [(placed, layer.time_us / us), (again, layer.again_us / us)]
            memory += [
                (placed, (layer.state_bytes + held * layer.kept_bytes) / scale),
                (again, held * (layer.input_bytes - layer.kept_bytes) / scale),
            ]
        self._add(time, -np.inf, 0.0)
        self._add(memory, -np.inf, self.limits.room_bytes / scale)

    def _add(self, terms: Iterable[tuple[int, float]], low: float, high: float) -> None:
        for column, value in terms:
            self.rows.append(len(self.low))
            self.columns.append(column)
            self.values.append(value)
        self.low.append(low)
        self.high.append(high)
