"""Every rule is one module; what they find is put in order."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import replace
from importlib import import_module

import skyline.findings
from skyline.findings.base import Evidence, Finding
from skyline.findings.registry import find, job_rules, rules
from skyline.trace.facts import LoaderFact
from skyline.trace.record import CodeLine
from skyline.whatif.baseline import baseline


def test_codes_are_unique_sorted_and_in_a_group():
    codes = [rule.code for rule in rules()]
    assert codes == sorted(set(codes))
    every = [*codes, *(rule.code for rule in job_rules())]
    assert len(every) == len(set(every))
    assert all(re.fullmatch(r"SKY[1-6]\d\d", code) for code in every)


def test_a_rule_begins_its_module_with_its_code():
    for module in pkgutil.iter_modules(skyline.findings.__path__, "skyline.findings."):
        found = import_module(module.name)
        rule = getattr(found, "RULE", None) or getattr(found, "JOB_RULE", None)
        if rule is not None:
            assert found.__doc__.startswith(f"{rule.code}: "), module.name


def test_findings_are_dearest_first_and_name_place_cost_and_cure(profile):
    loading, optimizer = find(baseline(profile))
    assert (loading.code, loading.line, loading.whatif) == ("SKY101", 2, "num_workers")
    assert (optimizer.code, optimizer.line, optimizer.whatif) == ("SKY301", 3, "fused_optimizer")
    assert 0 < optimizer.cost_ms < loading.cost_ms + 1e-9


def test_a_healthy_script_is_left_alone(profile):
    fused = replace(profile.optimizers[0], options={"fused": True})
    quick = replace(profile.times, data_ms=tuple(0.1 for _ in profile.times.steps_ms))
    healthy = replace(profile, optimizers=(fused,), times=quick, loaders=(LoaderFact(16, 2, 10_000, 1.0),))
    assert find(baseline(healthy)) == ()


def test_what_has_no_line_of_its_own_stands_at_the_loop(profile):
    crowded = replace(profile, environment=replace(profile.environment, cpu_count=1, intraop_threads=8))
    (finding,) = [one for one in find(baseline(crowded)) if one.code == "SKY205"]
    assert (finding.file, finding.line) == (profile.loop_line.file, profile.loop_line.line)


def test_places_that_are_not_known_are_empty():
    assert (Evidence.at("why", None).file, Evidence.at("why", None).line) == ("", 0)
    finding = Finding.at("SKY999", "what", CodeLine("train.py", 3), 1.0)
    assert (finding.file, finding.line, finding.whatif, finding.evidence) == ("train.py", 3, None, ())
