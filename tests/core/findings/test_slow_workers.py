from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.slow_workers import RULE
from skyline.trace.facts import LoaderFact
from skyline.whatif.cost.loader_model import COSTS


def waiting(profile, data_ms, workers=2):
    times = replace(profile.times, data_ms=tuple(data_ms for _ in profile.times.steps_ms))
    line = profile.loaders[0].created_line
    return replace(profile, times=times, loaders=(LoaderFact(16, workers, 10_000, 1.0, created_line=line),))


def test_waiting_for_workers_costs_what_is_beyond_taking_the_batch(profile, checked):
    found = checked(RULE, waiting(profile, 4.0))
    assert found.line == 2
    # The batch has 4 MB, and taking so much from a worker costs time by itself.
    assert found.cost_ms == pytest.approx(4.0 - COSTS.taken_us(4e6) / 1e3)
    assert "the DataLoader's 2 workers" in found.title
    assert any("9 of 9" in one.text for one in found.evidence)


def test_workers_that_keep_up_and_scripts_without_are_left_alone(profile, checked):
    assert checked(RULE, waiting(profile, 0.1)) is None
    assert checked(RULE, waiting(profile, 4.0, workers=0)) is None


def test_a_trace_without_workers_is_not_about_them(traced, checked):
    assert checked(RULE, traced) is None
