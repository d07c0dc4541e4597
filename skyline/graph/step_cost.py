"""What the recorded optimizer steps were made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skyline.graph.build import main_lane
from skyline.spread import median
from skyline.trace.phase import Phase
from skyline.trace.record import Record, RecordKind, Trace

_CALL_PERCENTILE = 0.1
"""The cheapest tenth of the operators shows what a call costs that moves next to nothing."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Shares of the recorded optimizer time: in memory traffic, and in the cheapest call there was.

    What the operators take beyond the cost of a bare call each is traffic; the rest is calls and Python.
    ``in_place_us`` is the traffic of an iteration's operators that write where they read, 0 where none was seen:
    those that write to memory taken anew wait for the system to give it, too, and differ by that from one
    iteration to the next.
    """

    traffic_share: float
    call_share: float
    in_place_us: float = 0.0


def step_cost(trace: Trace) -> StepCost:
    """Of the main lane; without any recorded operator all of the time is taken to be traffic."""
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
    """By PyTorch's names: an operator that ends in ``_`` writes to its first argument."""
    by_iteration: dict[int, float] = {}
    for record in records:
        one_tensor = record.kind is RecordKind.OPERATOR and "_foreach_" not in record.name
        if one_tensor and record.name.endswith("_"):
            beyond = max(0.0, record.duration_us - call_us)
            by_iteration[record.iteration] = by_iteration.get(record.iteration, 0.0) + beyond
    return median(tuple(by_iteration.values())) if by_iteration else 0.0
