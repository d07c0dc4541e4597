from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.host_waits import RULE
from skyline.trace.facts import CallFact


def test_waiting_before_more_work_of_the_host_costs_the_overlap(gpu_script, checked):
    waiting = gpu_script([("sgemm", 300.0)] * 4, rest_us=1000.0)
    line = waiting.trace.lines[3]
    found = checked(RULE, replace(waiting, calls=(CallFact("item", 1.0, line, {"device": "cuda"}),)))
    # 1.2 ms of kernels and 1 ms of Python one after the other: without the wait they overlap.
    assert found.cost_ms == pytest.approx(1.0, abs=0.1)
    assert (found.line, found.whatif) == (line.line, "remove_sync")
    assert found.title.startswith("the script stops once in an iteration")
    assert "in item()" in found.evidence[0].text


def test_a_wait_that_costs_nothing_is_not_worth_a_word(gpu_script, profile, checked):
    assert checked(RULE, gpu_script([("sgemm", 300.0)] * 4)) is None
    timing = gpu_script([("sgemm", 300.0)] * 4, rest_us=100.0)
    renamed = tuple(
        replace(one, name="cudaDeviceSynchronize") if "Synchronize" in one.name else one
        for one in timing.trace.records
    )
    # The wait that ends an iteration for its timing is not the script's.
    assert checked(RULE, replace(timing, trace=replace(timing.trace, records=renamed))) is None
    assert checked(RULE, gpu_script([("sgemm", 300.0)] * 4, wait=False, rest_us=1000.0)) is None
    assert checked(RULE, profile) is None


def test_waits_in_a_trace(traced, checked):
    found = checked(RULE, traced)
    assert found.whatif == "remove_sync"
    assert 0 < found.cost_ms < 0.2
