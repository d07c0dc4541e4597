"""What the recorded optimizer steps were made of."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.graph.build import main_lane
from skyline.trace.phase import Phase
from skyline.trace.record import RecordKind, Trace

_CALL_PERCENTILE = 0.1
"""The cheapest tenth of the operators shows what a call costs that moves next to nothing."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Shares of the recorded optimizer time: in memory traffic, and in the cheapest call there was.

    What the operators take beyond the cost of a bare call each is traffic; the rest is calls and Python.
    """

    traffic_share: float
    call_share: float


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
    return StepCost(traffic_us / total_us, call_us * iterations / total_us)
