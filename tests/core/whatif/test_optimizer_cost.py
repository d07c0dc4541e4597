from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.task import Part
from skyline.trace.facts import OptimizerFact
from skyline.trace.record import Allocation, Phase, RecordKind
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.fused_optimizer import foreach_ms, step_memory
from skyline.whatif.cost.optimizer_step import fused_ms, unfused_ms, update_of
from skyline.whatif.subject import StepCost, Subject, step_cost

MB = 1_000_000
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


def with_step(subject: Subject, step: StepCost) -> Subject:
    """A copy of a subject whose recorded optimizer step has this composition."""
    changed = replace(subject)
    vars(changed)["step"] = step
    return changed


@pytest.mark.parametrize(("name", "operators", "tensors", "parameters", "now_ms", "fused"), MEASURED)
def test_measured_pairs_lie_in_the_interval(profile, name, operators, tensors, parameters, now_ms, fused):
    fact = OptimizerFact(name, 1, tensors, parameters, 8 * parameters, {})
    calls_ms = tensors * operators * 0.002
    start = with_step(
        replace(baseline(replace(profile, optimizers=(fact,))), parts_ms={Part.OPTIMIZER: now_ms}),
        StepCost(traffic_share=max(0.0, now_ms - calls_ms) / now_ms, call_share=0.002 / now_ms),
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


def test_the_traffic_of_a_fused_step_is_that_of_operators_that_take_no_memory(profile):
    """Fresh results wait for the system's memory, which a fused step does not need."""
    fact = OptimizerFact("Adagrad", 1, 4, 1_000_000, 4_000_000, {})
    start = with_step(
        replace(baseline(replace(profile, optimizers=(fact,))), parts_ms={Part.OPTIMIZER: 10.0}),
        StepCost(traffic_share=0.96, call_share=0.0002),
    )
    update = update_of(fact)
    assert update is not None
    of_all = fused_ms(start, ((fact, update),))
    # 36 of 48 bytes a parameter are moved in place, in 1.8 ms: the fused 20 take 1 ms.
    in_place = with_step(start, StepCost(0.96, 0.0002, in_place_us=1800.0))
    found = fused_ms(in_place, ((fact, update),))
    assert found.value == pytest.approx(1.0 + 0.05 + 4 * 2 * 0.002, rel=0.01)
    assert of_all.value > 3 * found.value
    # Recorded on a slower machine than was timed bare: all of them together bound it.
    slower = with_step(start, StepCost(0.96, 0.0002, in_place_us=50_000.0))
    assert fused_ms(slower, ((fact, update),)).value == pytest.approx(of_all.value)


def test_operators_that_write_where_they_read_are_told_by_their_names(profile):
    records = tuple(
        replace(record, name="aten::addcmul_" if place % 2 else "aten::sqrt")
        if record.phase is Phase.OPTIMIZER and record.kind is RecordKind.OPERATOR
        else record
        for place, record in enumerate(profile.trace.records)
    )
    cost = step_cost(replace(profile.trace, records=records))
    assert 0 < cost.in_place_us < cost.traffic_share * 2000
    assert step_cost(profile.trace).in_place_us in (0.0, pytest.approx(1600 - 8 * 20))


@pytest.mark.parametrize(("temporary_mb", "less_mb"), [(0, 26), (40, 20)])
def test_the_peak_of_a_step_is_that_of_what_it_takes_for_itself(profile, temporary_mb, less_mb):
    """Live are 41 MB, 75 in the passes; the step takes 60 for itself and lets go of them."""
    trace = profile.trace
    begin_us = trace.iterations[-1].start_us
    own = tuple(
        Allocation(begin_us + at_us, size_mb * MB, 7, Phase.OPTIMIZER, 2)
        for at_us, size_mb in ((9_600, 60), (9_900, -60))
    )
    start = baseline(
        replace(profile, peak_bytes=101 * MB, trace=replace(trace, allocations=(*trace.allocations, *own)))
    )
    change = step_memory(start, temporary_mb * MB)
    assert change is not None
    assert change(start.memory).peak_bytes.value == pytest.approx((101 - less_mb) * MB)


@pytest.mark.parametrize(
    ("tensors", "measured"),
    # Adam's and RMSprop's step for all tensors at once over that one by one: benchmarks/foreach_calls.py.
    [(2, 1.09), (6, 0.79), (14, 0.68), (60, 0.61)],
)
def test_grouping_few_tensors_takes_what_their_calls_save(profile, tensors, measured):
    fact = OptimizerFact("RMSprop", 1, tensors, 8 * tensors, 0, {"foreach": False})
    start = with_step(
        replace(baseline(replace(profile, optimizers=(fact,))), parts_ms={Part.OPTIMIZER: 1.0}),
        StepCost(traffic_share=0.0, call_share=0.01),
    )
    found = foreach_ms(start, (fact,))
    assert found.value == pytest.approx(measured, rel=0.08)
    assert found.low < measured < found.high


def test_a_fused_step_of_fewer_parameters_keeps_its_calls(profile):
    """Of a tenth of the parameters in as many tensors the traffic is a tenth, before and after."""
    fact = OptimizerFact("Adam", 1, 10, 1_000_000, 8_000_000, {})
    start = with_step(
        replace(baseline(replace(profile, optimizers=(fact,))), parts_ms={Part.OPTIMIZER: 10.0}),
        StepCost(traffic_share=0.8, call_share=0.001),
    )
    update = update_of(fact)
    assert update is not None
    assert unfused_ms(start, 0.1) == pytest.approx(2 + 0.8)
    calls_ms = 10 * 2 * 0.01 + 0.05
    whole, tenth = (fused_ms(start, ((fact, update),), left) for left in (1.0, 0.1))
    assert whole.value == pytest.approx(calls_ms + 8 * 28 / 72)
    assert tenth.value == pytest.approx(calls_ms + 0.8 * 28 / 72)
    assert tenth.low < tenth.value < tenth.high
