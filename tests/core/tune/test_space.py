"""The candidates of the hand-made profile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.best import Climb, Constraints, best
from skyline.analysis.estimate import estimate
from skyline.interval import Interval
from skyline.tune.space import Space
from skyline.whatif.base import Semantics
from skyline.whatif.question import Choice, Estimate
from skyline.whatif.registry import whatif_named


@pytest.fixture
def analysis(profile) -> Analysis:
    return analyse(profile)


def space_of(analysis: Analysis, semantics: Semantics, memory_bytes: float | None = None) -> Space:
    return Space(analysis, Constraints(memory_bytes, semantics, rewritable=True))


def names(space: Space) -> set[str]:
    return {part.name for candidate in space.around(frozenset()) for part in candidate.parts}


def test_only_allowed_changes_that_can_be_written_are_candidates(analysis: Analysis) -> None:
    order = list(Semantics)
    for allowed in Semantics:
        space = space_of(analysis, allowed)
        found = names(space)
        assert "fused_optimizer" in found
        assert all(order.index(whatif_named(name).semantics) <= order.index(allowed) for name in found)
        assert ("batch_size" in found) == (order.index(allowed) >= order.index(Semantics.CONVERGENCE))
        for candidate in space.around(frozenset()):
            assert estimate(analysis, candidate.question).rewrite == "available"


def test_each_candidate_has_its_simulated_speedup_and_one_value_of_a_what_if(analysis: Analysis) -> None:
    for candidate in space_of(analysis, Semantics.CONVERGENCE).around(frozenset()):
        assert len({part.name for part in candidate.parts}) == len(candidate.parts)
        assert candidate.speedup == estimate(analysis, candidate.question).speedup_range


def test_the_simulated_best_and_what_differs_in_one_part_are_candidates(analysis: Analysis) -> None:
    constraints = Constraints(None, Semantics.CONVERGENCE, rewritable=True)
    chosen = frozenset(best(analysis, constraints).question.choices)
    candidates = {one.parts for one in Space(analysis, constraints).around(chosen)}
    assert chosen in candidates
    assert all(chosen - {part} in candidates for part in chosen if len(chosen) > 1)


def test_a_memory_limit_holds_for_every_candidate(analysis: Analysis) -> None:
    for candidate in space_of(analysis, Semantics.CONVERGENCE, 80e6).around(frozenset()):
        peak = estimate(analysis, candidate.question).peak_bytes
        assert peak is not None
        assert peak.value <= 80e6


def test_a_change_that_cannot_be_written_is_left_out_with_its_reason(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = type(analysis.rewrites).availability

    def refuses(self, parts):
        parts = list(parts)
        found = real(self, parts)
        return ("refused", "The line is too clever") if "fused_optimizer" in dict(parts) else found

    monkeypatch.setattr(type(analysis.rewrites), "availability", refuses)
    space = space_of(analysis, Semantics.EXACT)
    assert "fused_optimizer" not in names(space)
    assert "fused_optimizer: The line is too clever" in space.left_out


def test_a_part_that_changes_nothing_is_in_no_candidate(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Climb.ask

    def without(climb: Climb, chosen: frozenset[Choice]) -> Estimate:
        found = ask(climb, frozenset(part for part in chosen if part.name != "fused_optimizer"))
        return replace(found, speedup_range=Interval(1.0, 0.9, 1.1), rewrite="available")

    monkeypatch.setattr(Climb, "ask", without)
    assert "fused_optimizer" not in names(space_of(analysis, Semantics.CONVERGENCE))
