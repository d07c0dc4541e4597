from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.data_loading_bound import RULE
from skyline.interval import Interval
from skyline.trace.facts import LoaderFact
from skyline.trace.profile import Prediction
from skyline.trace.record import RecordKind


def test_a_loader_without_workers_costs_its_time(profile, checked):
    found = checked(RULE, profile)
    assert (found.line, found.whatif) == (2, "num_workers")
    assert found.cost_ms == pytest.approx(2.0)
    assert found.title.startswith("20% of the iteration")


def test_lines_of_the_data_set_are_evidence(profile, checked):
    assert checked(RULE, profile).evidence == ()
    records = tuple(
        replace(one, line=1) if one.kind is RecordKind.DATA else one for one in profile.trace.records
    )
    (evidence,) = checked(RULE, replace(profile, trace=replace(profile.trace, records=records))).evidence
    assert (evidence.line, evidence.text) == (5, "2.00 ms of an iteration")


def test_workers_little_loading_and_predictions_are_not_accused(profile, checked):
    assert checked(RULE, replace(profile, loaders=(LoaderFact(16, 2, 100, 1.0),))) is None
    quick = replace(profile.times, data_ms=tuple(0.5 for _ in profile.times.steps_ms))
    assert checked(RULE, replace(profile, times=quick)) is None
    said = Prediction("T4", "roofline", "a table", Interval(10.0, 8.0, 12.0), 0.0)
    assert checked(RULE, replace(profile, prediction=said, mode="predicted")) is None


def test_a_gpu_that_is_busy_meanwhile_hides_it(gpu_script, checked):
    fed = gpu_script([("sgemm", 900.0)], wait=False, rest_us=980.0, iterations=8)
    loader = LoaderFact(16, 0, 100, 1.0)

    def loading(busy_us):
        made = gpu_script([("sgemm", busy_us)], wait=False, rest_us=980.0, iterations=8)
        rows = tuple(
            replace(one, kind=RecordKind.DATA, name="next") if one.duration_us == 980.0 else one
            for one in made.trace.records
        )
        steps = tuple(max(1.0, busy_us / 1e3) for _ in range(9))
        times = replace(fed.times, steps_ms=steps, data_ms=(0.98,) * 9)
        return replace(made, trace=replace(made.trace, records=rows), times=times, loaders=(loader,))

    starved, hidden = checked(RULE, loading(100.0)), checked(RULE, loading(3000.0))
    assert starved is not None
    assert starved.cost_ms > 0.5
    assert hidden is None or hidden.cost_ms < 0.3


def test_a_trace_tells_it_too(traced, checked):
    found = checked(RULE, traced)
    assert found.title.startswith("30% of a step")
    assert found.cost_ms == pytest.approx(0.3, rel=0.05)
