"""If this were free: what the step would take if the work of one line, layer or phase took less time, or none.

The question is that of Coz (Curtsinger and Berger, SOSP 2015): how much work something is says little about what
would be won by speeding it up, because other work may be waited for meanwhile. Coz slows down everything else in
a running program; here the simulation answers.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skyline.compiled import loop
from skyline.graph.column import Ids, Times
from skyline.graph.graph import Graph
from skyline.simulate.engine import simulate
from skyline.simulate.timeline import step_ms


@dataclass(frozen=True, slots=True)
class VirtualSpeedup:
    """What a step takes, in ms, where all work of a group takes ``factor`` times as long."""

    group: str
    factor: float
    step_ms: float
    unchanged_ms: float
    own_ms: float
    """What the group's tasks take of a step as it is, gaps included, whether anything waits for them or not."""

    @property
    def saved_ms(self) -> float:
        """By how much the step would be shorter."""
        return self.unchanged_ms - self.step_ms


def virtual_speedup(
    graph: Graph,
    groups: Mapping[str, npt.ArrayLike],
    factors: Sequence[float] = (0.0, 0.5),
    *,
    lane: str | None = None,
    skip: int = 0,
) -> tuple[VirtualSpeedup, ...]:
    """For each group and each factor, in this order, the step with the durations and gaps of the group's tasks scaled.

    Groups may overlap (``skyline.simulate.groups`` makes them). What a step takes is the mean over all iterations,
    by the work of one lane or of all, so that less work never shows as a loss. Without the first ``skip`` ones it
    can: time that is won there, and lost again to the same wait later, then counts only where it is lost.
    """
    names = list(groups)
    members = [np.unique(np.asarray(groups[name], np.int32)) for name in names]
    scenarios = [(place, factor) for place in range(len(names)) for factor in factors]
    # The last scenario changes nothing.
    group_of = np.array([*(place for place, _ in scenarios), 0], np.int32)
    factor_of = np.array([*(factor for _, factor in scenarios), 1.0])
    ends = _iteration_ends(graph, [*members] or [np.empty(0, np.int32)], group_of, factor_of, lane)
    steps = [step_ms(row, skip) for row in ends.tolist()]
    count = max(1, len(graph.iterations))
    own = [float((graph.durations[some] + graph.gaps[some]).sum()) / count / 1e3 for some in members]
    return tuple(
        VirtualSpeedup(names[place], factor, steps[number], steps[-1], own[place])
        for number, (place, factor) in enumerate(scenarios)
    )


def _iteration_ends(
    graph: Graph, members: Sequence[Ids], group_of: Ids, factor_of: Times, lane: str | None
) -> npt.NDArray[np.float64]:
    """µs at which each iteration (column) is over in each scenario (row)."""
    if graph.priorities is not None:
        rows: list[tuple[float, ...]] = []
        for group, factor in zip(group_of.tolist(), factor_of.tolist(), strict=True):
            scaled = np.ones(len(graph))
            scaled[members[group]] = factor
            changed = Graph(graph.structure, graph.durations * scaled, graph.gaps * scaled, graph.priorities)
            rows.append(simulate(changed).iteration_ends_us(lane))
        return np.array(rows)
    structure = graph.structure
    count = len(structure)
    counted = (
        np.ones(count, np.bool_) if lane is None else structure.lane_of == _number(lane, structure.lanes)
    )
    different, place = np.unique(graph.tasks.iteration[counted], return_inverse=True)
    iteration_of = np.full(count, -1, np.int32)
    iteration_of[counted] = place
    ends = np.zeros(len(group_of) * len(different))
    offsets = np.zeros(len(members) + 1, np.int32)
    np.cumsum([len(some) for some in members], out=offsets[1:])
    _run_each(
        len(group_of) * (count + len(structure.incoming_source)),
        structure.order,
        structure.lane_of,
        structure.incoming_offsets,
        structure.incoming_source,
        structure.incoming_lag,
        structure.incoming_from_start,
        graph.durations,
        graph.gaps,
        iteration_of,
        offsets,
        np.concatenate(members),
        group_of,
        factor_of,
        graph.durations.copy(),
        graph.gaps.copy(),
        np.zeros(len(structure.lanes)),
        np.zeros(count),
        np.zeros(count),
        ends,
    )
    return ends.reshape(len(group_of), len(different))


def _number(lane: str, lanes: Sequence[str]) -> int:
    return lanes.index(lane) if lane in lanes else -1


@loop("iiiifbffiiiif", writes="ffffff")
def _run_each(
    order: Sequence[int],
    lane_of: Sequence[int],
    incoming_offsets: Sequence[int],
    incoming_source: Sequence[int],
    incoming_lag: Sequence[float],
    incoming_from_start: Sequence[bool],
    durations: Sequence[float],
    gaps: Sequence[float],
    iteration_of: Sequence[int],
    member_offsets: Sequence[int],
    members: Sequence[int],
    group_of: Sequence[int],
    factor_of: Sequence[float],
    lasts: MutableSequence[float],
    rests: MutableSequence[float],
    free: MutableSequence[float],
    starts: MutableSequence[float],
    ends: MutableSequence[float],
    over: MutableSequence[float],
) -> int:
    """The pass of ``fixed_order`` once per scenario, each time with the times of one group scaled.

    ``over`` holds the ends of the iterations, one scenario after another.
    """
    iterations = len(over) // len(group_of)
    for scenario in range(len(group_of)):
        group = group_of[scenario]
        factor = factor_of[scenario]
        first = scenario * iterations
        for place in range(member_offsets[group], member_offsets[group + 1]):
            index = members[place]
            lasts[index] = durations[index] * factor
            rests[index] = gaps[index] * factor
        for lane in range(len(free)):
            free[lane] = 0.0
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
            end = start + lasts[index]
            ends[index] = end
            freed = end + rests[index]
            free[lane] = freed
            iteration = iteration_of[index]
            if iteration >= 0 and freed > over[first + iteration]:
                over[first + iteration] = freed
        for place in range(member_offsets[group], member_offsets[group + 1]):
            index = members[place]
            lasts[index] = durations[index]
            rests[index] = gaps[index]
    return 0
