from __future__ import annotations

from dataclasses import replace

from skyline.findings.graph_breaks import RULE
from skyline.trace.facts import CallFact


def test_each_place_is_evidence(profile, checked):
    lines = profile.trace.lines
    calls = (
        CallFact("compile", 0.0, lines[0]),
        CallFact("graph break", 0.0, lines[1], {"reason": "a branch depends on the numbers in a tensor"}),
        CallFact("graph break", 0.0, None, {"reason": ""}),
    )
    found = checked(RULE, replace(profile, calls=calls))
    assert found.line == lines[1].line
    assert (
        found.title
        == "torch.compile breaks the graph at 2 places: a branch depends on the numbers in a tensor"
    )
    assert [one.line for one in found.evidence] == [lines[1].line, 0]
    assert found.cost_ms == 0


def test_what_compiles_whole_or_not_at_all_is_left_alone(profile, traced, checked):
    assert checked(RULE, replace(profile, calls=(CallFact("compile", 0.0),))) is None
    assert checked(RULE, profile) is None
    assert checked(RULE, traced) is None
