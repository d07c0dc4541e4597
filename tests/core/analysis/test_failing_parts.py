"""One what-if, rule or candidate that fails is left out with its reason; the others are answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.best import best
from skyline.analysis.estimate import answer, curve_under, estimate, rank, ranked
from skyline.analysis.rewrites import Rewrites
from skyline.errors import UsageError
from skyline.findings import registry as rules
from skyline.graph.dependency import Cause, CyclicGraph, Dependency
from skyline.graph.graph import add_dependencies
from skyline.trace.kineto.reader import read
from skyline.whatif.base import Scenario
from skyline.whatif.catalogue.host.remove_sync import RemoveSync
from skyline.whatif.catalogue.memory.grad_accumulation import GradAccumulation
from skyline.whatif.catalogue.models.fused_optimizer import FusedOptimizer
from skyline.whatif.question import Choice, Question
from skyline.whatif.recorded import recorded

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture
def analysis(profile) -> Analysis:
    return analyse(profile)


def in_a_circle(self: object, scenario: Scenario, value: str, subject: Any) -> Scenario:
    """Of two tasks each waits for the other, which shows when the graph is run."""
    circle = [Dependency(0, 1, Cause.SYNC), Dependency(1, 0, Cause.SYNC)]
    return scenario.changed(add_dependencies(scenario.graph, circle))


def broken(*arguments: object) -> Any:
    raise CyclicGraph("a task waits for itself")


@pytest.mark.parametrize("way", ["detect", "transform", "simulation"])
def test_a_what_if_that_fails_does_not_apply_and_the_others_are_ranked(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    before = {one.name: one for one in rank(analysis)}
    method = "detect" if way == "detect" else "transform"
    monkeypatch.setattr(FusedOptimizer, method, in_a_circle if way == "simulation" else broken)
    after = {one.name: one for one in rank(analysis)}
    failed = after.pop("fused_optimizer")
    assert not failed.applicable
    assert "CyclicGraph" in (failed.reason or "")
    assert after == {name: one for name, one in before.items() if name != "fused_optimizer"}
    assert not estimate(analysis, Question(64, (Choice("fused_optimizer"),))).applicable


def test_in_a_trace_too(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = recorded(read(DATA / "tiny_gpu.trace.json"))
    names = {one.name for one in ranked(subject)}
    monkeypatch.setattr(RemoveSync, "transform", in_a_circle)
    failed = answer(subject, (Choice("remove_sync"),))
    assert not failed.applicable
    assert "CyclicGraph" in (failed.reason or "")
    assert {one.name for one in ranked(subject)} == names


def test_more_parts_than_another_batch_size_has_is_no_mistake_in_the_value(analysis: Analysis) -> None:
    assert analysis.profile.batch_size == 16
    found = estimate(analysis, Question(8, (Choice("grad_accumulation", "16"),)))
    assert not found.applicable
    assert "a batch of 8 samples cannot be split into 16 equal parts" in (found.reason or "")
    with pytest.raises(UsageError, match="more parts"):
        estimate(analysis, Question(None, (Choice("grad_accumulation", "32"),)))
    assert curve_under(analysis, (Choice("grad_accumulation", "16"),))


def test_the_search_leaves_out_what_fails(analysis: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = GradAccumulation.detect

    def too_many(self: GradAccumulation, subject: Any) -> Any:
        return replace(offered(self, subject), values=("2", "32"))

    monkeypatch.setattr(GradAccumulation, "detect", too_many)
    monkeypatch.setattr(FusedOptimizer, "transform", broken)
    found = best(analysis)
    assert found.estimate is not None
    assert found.tried > 5
    told = " | ".join(found.left_out)
    assert "grad_accumulation=32: grad_accumulation=32 is more parts than the 16 samples" in told
    assert "CyclicGraph" in told


def test_a_rule_that_fails_costs_a_note(profile, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        code = "SKY999"
        check = staticmethod(broken)

    others = rules.rules()
    expected = analyse(profile).findings
    monkeypatch.setattr(rules, "rules", lambda: (*others, Broken()))
    found = analyse(profile)
    assert found.findings == expected
    assert any("Could not check SKY999: CyclicGraph" in note for note in found.notes)


def test_a_rewrite_that_fails_is_refused_with_the_reason(profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyline.analysis.rewrites.entry_named", broken)
    monkeypatch.setattr("skyline.analysis.rewrites.present", broken)
    rewrites = Rewrites(profile)
    state, reason = rewrites.availability([("fused_optimizer", "")])
    assert state == "refused"
    assert "CyclicGraph" in (reason or "")
    assert rewrites.presence("fused_optimizer").value is None


@pytest.mark.parametrize("size", [0, -1, 10**10, 10**30, 10**5000], ids="abcde")
def test_a_batch_size_out_of_range_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match="out of range"):
        Question(size)


@pytest.mark.parametrize("value", ["1000000001", "9" * 30, "9" * 5000], ids="abc")
@pytest.mark.parametrize("name", ["batch_size", "grad_accumulation", "num_workers"])
def test_a_number_that_is_too_large_is_refused(analysis: Analysis, name: str, value: str) -> None:
    with pytest.raises(UsageError) as refused:
        estimate(analysis, Question(choices=(Choice(name, value),)))
    assert "too large" in refused.value.message
    assert len(refused.value.message) < 100


@pytest.mark.parametrize("value", ["1e400", "nan", "-1", "1.5"])
def test_what_is_no_whole_number_is_refused(analysis: Analysis, value: str) -> None:
    with pytest.raises(UsageError, match="is not possible"):
        estimate(analysis, Question(choices=(Choice("batch_size", value),)))
