from __future__ import annotations

from dataclasses import replace

from skyline.findings.unfused_optimizer import RULE


def test_an_update_tensor_by_tensor_costs_what_fusing_saves(profile, checked):
    found = checked(RULE, profile)
    assert (found.line, found.whatif) == (3, "fused_optimizer")
    assert 0 < found.cost_ms < 2.0
    assert found.evidence[0].line == 7
    assert "4 tensors" in found.evidence[0].text


def test_a_fused_or_cheap_optimizer_is_no_problem(profile, checked):
    fused = replace(profile.optimizers[0], options={"fused": True})
    assert checked(RULE, replace(profile, optimizers=(fused,))) is None
    cheap = replace(profile.times, optimizer_ms=tuple(0.2 for _ in profile.times.steps_ms))
    assert checked(RULE, replace(profile, times=cheap)) is None


def test_a_trace_names_the_optimizer(traced, checked):
    found = checked(RULE, traced)
    assert found.title.startswith("SGD updates tensor by tensor")
    assert 0.05 < found.cost_ms < 0.5
