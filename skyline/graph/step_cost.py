"""Composition of the recorded optimizer steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skyline.graph.build import main_lane
from skyline.spread import median
from skyline.trace.phase import Phase
from skyline.trace.record import Record, RecordKind, Trace

_CALL_PERCENTILE = 0.1
"""The fastest tenth of the operators gives the cost of a call without significant memory traffic."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Composition of the recorded optimizer time: the memory traffic and the fastest call.

    Time of the operators beyond the cost of a bare call is memory traffic. The remainder is calls and Python.
    ``in_place_us`` is the traffic per iteration, in µs, of operators that write in place; 0 if there are none. Other
    operators write to newly allocated memory and also wait for the system to provide it. That wait varies between
    iterations.
    """

    traffic_share: float
    call_share: float
    in_place_us: float = 0.0


def step_cost(trace: Trace) -> StepCost:
    """Cost on the main lane. Without recorded operators, all time counts as traffic."""
    lane = main_lane(trace)
    records = [record for record in trace.records if record.phase is Phase.OPTIMIZER and record.lane == lane]
    operators = sorted(record.duration_us for record in records if record.kind is RecordKind.OPERATOR)
    total_us = sum(record.duration_us for record in records)
    if not operators or total_us <= 0:
        return StepCost(1.0, 0.0)
    call_us = operators[int(_CALL_PERCENTILE * (len(operators) - 1))]
    iterations = max(1, len(trace.iterations))
    traffic_us = max(0.0, sum(operators) - len(operators) * call_us)
    return StepCost(traffic_us / total_us, call_us * iterations / total_us, _in_place_us(records, call_us))


def _in_place_us(records: Sequence[Record], call_us: float) -> float:
    """In-place operators by PyTorch's naming rule: a trailing ``_`` marks a write to the first argument."""
    by_iteration: dict[int, float] = {}
    for record in records:
        one_tensor = record.kind is RecordKind.OPERATOR and "_foreach_" not in record.name
        if one_tensor and record.name.endswith("_"):
            beyond = max(0.0, record.duration_us - call_us)
            by_iteration[record.iteration] = by_iteration.get(record.iteration, 0.0) + beyond
    return median(tuple(by_iteration.values())) if by_iteration else 0.0
