from __future__ import annotations

from dataclasses import replace

from skyline.findings.registry import find, rules
from skyline.trace.facts import LoaderFact
from skyline.whatif.baseline import baseline


def codes(profile):
    return [finding.code for finding in find(baseline(profile))]


def test_rules_are_found_and_their_codes_are_unique():
    found = [rule.code for rule in rules()]
    assert found == ["SKY101", "SKY301"]


def test_findings_name_place_cost_and_cure(profile):
    loading, optimizer = find(baseline(profile))
    assert (loading.code, loading.line, loading.whatif) == ("SKY101", 2, "num_workers")
    assert abs(loading.cost_ms - 2.0) < 1e-9
    assert loading.title.startswith("20% of the iteration")
    assert (optimizer.code, optimizer.line, optimizer.whatif) == ("SKY301", 3, "fused_optimizer")
    assert 0 < optimizer.cost_ms < 2.0


def test_a_loader_with_workers_is_not_accused(profile):
    assert codes(replace(profile, loaders=(LoaderFact(16, 2, 100, 1.0),))) == ["SKY301"]


def test_little_loading_is_no_problem(profile):
    quick = replace(profile.times, data_ms=tuple(0.5 for _ in profile.times.steps_ms))
    assert codes(replace(profile, times=quick)) == ["SKY301"]


def test_a_fused_or_cheap_optimizer_is_no_problem(profile):
    fused = replace(profile.optimizers[0], options={"fused": True})
    assert codes(replace(profile, optimizers=(fused,))) == ["SKY101"]
    cheap = replace(profile.times, optimizer_ms=tuple(0.2 for _ in profile.times.steps_ms))
    assert codes(replace(profile, times=cheap)) == ["SKY101"]
