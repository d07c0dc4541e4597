from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.part import Part
from skyline.graph.step_cost import StepCost, step_cost
from skyline.trace.facts import OptimizerFact
from skyline.trace.phase import Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.cost.optimizer_step import fused_ms, update_of

# Steps of real optimizers on one core of a server CPU, fastest of 25, in ms: as single operators, and fused. A
# call took 2 µs there; the operators per tensor are 10 (Adam and its kin), 5 (Adagrad) and 3 (SGD).
MEASURED = [
    ("AdamW", 10, 39, 346_008, 1.009, 0.252),
    ("AdamW", 10, 60, 6_000_000, 9.74, 3.28),
    ("AdamW", 10, 300, 300_000, 6.25, 1.06),
    ("AdamW", 10, 16, 16_000_000, 25.1, 7.76),
    ("Adam", 10, 60, 6_000_000, 8.72, 3.26),
    ("SGD", 3, 60, 6_000_000, 3.13, 2.20),
    ("SGD", 3, 16, 16_000_000, 7.67, 5.88),
    ("Adagrad", 5, 60, 6_000_000, 6.16, 2.13),
    ("Adagrad", 5, 300, 300_000, 2.95, 0.92),
]


@pytest.mark.parametrize(("name", "operators", "tensors", "parameters", "now_ms", "fused"), MEASURED)
def test_measured_pairs_lie_in_the_interval(profile, name, operators, tensors, parameters, now_ms, fused):
    fact = OptimizerFact(name, 1, tensors, parameters, 8 * parameters, {})
    calls_ms = tensors * operators * 0.002
    start = replace(
        baseline(replace(profile, optimizers=(fact,))),
        parts_ms={Part.OPTIMIZER: now_ms},
        step=StepCost(traffic_share=max(0.0, now_ms - calls_ms) / now_ms, call_share=0.002 / now_ms),
    )
    update = update_of(fact)
    assert update is not None
    found = fused_ms(start, ((fact, update),))
    assert found.low <= fused <= found.high
    assert found.value == pytest.approx(fused, rel=0.45)


def test_an_optimizer_that_stays_keeps_its_share(profile):
    fact = profile.optimizers[0]
    other = replace(fact, name="RMSprop")
    start = baseline(replace(profile, optimizers=(fact, other)))
    update = update_of(fact)
    assert update is not None
    alone = fused_ms(baseline(profile), ((fact, update),)).value
    assert alone < fused_ms(start, ((fact, update),)).value < 2.0


def test_step_cost_tells_calls_from_traffic(profile):
    cost = step_cost(profile.trace)
    # Per step 2000 µs recorded: four calls of 20 µs and four of 380, gaps aside.
    assert cost.call_share == pytest.approx(20 / 2000)
    assert cost.traffic_share == pytest.approx((1600 - 8 * 20) / 2000)


def test_without_recorded_operators_all_is_traffic(profile):
    records = tuple(record for record in profile.trace.records if record.phase is not Phase.OPTIMIZER)
    assert step_cost(replace(profile.trace, records=records)) == StepCost(1.0, 0.0)
