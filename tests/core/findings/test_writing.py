from __future__ import annotations

from dataclasses import replace

from skyline.findings.writing import RULE
from skyline.trace.facts import CallFact, SideEffect
from skyline.trace.record import Phase

PRINT = 3


def test_a_line_that_prints_costs_its_time(profile, checked):
    line = profile.trace.lines[PRINT]
    found = checked(RULE, replace(profile, calls=(CallFact("item", 1.0, line, {"device": "cpu"}),)))
    assert (found.line, found.whatif) == (8, "remove_sync")
    assert 0.5 < found.cost_ms < 1.5
    assert "seen in 3 of 3" in found.evidence[0].text


def test_a_line_that_saves_has_no_cure_but_less_of_it(profile, checked):
    saves = SideEffect("file", "model.pt", "redirected", 3, profile.trace.lines[PRINT])
    found = checked(RULE, replace(profile, side_effects=(saves,)))
    assert (found.line, found.whatif) == (8, None)
    assert found.evidence[0].text.startswith("writes a file")


def test_the_line_that_calls_a_framework_is_not_blamed_for_all_that_it_does(profile, checked):
    line = profile.trace.lines[PRINT]
    records = tuple(
        replace(one, call_line=PRINT) if one.phase is Phase.OPTIMIZER else one
        for one in profile.trace.records
    )
    saves = SideEffect("file", "model.pt", "redirected", 3, line)
    given = replace(profile, trace=replace(profile.trace, records=records), side_effects=(saves,))
    assert checked(RULE, given) is None


def test_quiet_lines_and_what_libraries_read_are_left_alone(profile, traced, checked):
    assert checked(RULE, profile) is None
    line = profile.trace.lines[PRINT]
    library = CallFact("read", 1.0, line, {"via": "clip_grad_norm_"})
    assert checked(RULE, replace(profile, calls=(library,))) is None
    download = SideEffect("network", "host", "allowed", 1, line)
    assert checked(RULE, replace(profile, side_effects=(download,))) is None
    short = tuple(
        replace(one, duration_us=10.0) if one.phase is Phase.OTHER else one for one in profile.trace.records
    )
    quick = replace(profile, trace=replace(profile.trace, records=short))
    assert checked(RULE, replace(quick, calls=(CallFact("print", 1.0, line),))) is None
    assert checked(RULE, traced) is None
