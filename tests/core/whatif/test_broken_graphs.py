"""Compiling a forward pass in which another library computes: the graph breaks there, and the gain may be none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.trace.record import Phase, RecordKind
from skyline.whatif.baseline import baseline
from skyline.whatif.question import Choice


@pytest.fixture
def launching(gpu_steps, on_a100):
    """A step of 9 ms that the host bounds; its forward pass calls one operator, of this name."""

    def made(operator):
        profile = on_a100(gpu_steps(4_000, 3_000, 2_000, 2_000), 9.0, 3.0, 2.0)
        records = tuple(
            replace(one, name=operator)
            if one.kind is RecordKind.OPERATOR and one.phase is Phase.FORWARD
            else one
            for one in profile.trace.records
        )
        return baseline(replace(profile, trace=replace(profile.trace, records=records)))

    return made


def test_a_whole_graph_surely_brings_something(launching):
    assert answer(launching("aten::mm"), [Choice("compile")]).change_ms.high < -5


def test_a_graph_that_breaks_may_bring_nothing(launching):
    found = answer(launching("fbgemm::dense"), [Choice("compile")])
    assert found.change_ms.value < -1
    assert found.change_ms.high >= -1e-9
    assert any("breaks 1 times" in one for one in found.assumptions)
