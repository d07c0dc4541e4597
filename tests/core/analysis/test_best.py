"""The best combination: that it is as good as the best found by trying all, and that it keeps to its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.best import Constraints, best
from skyline.analysis.estimate import applicability, estimate
from skyline.whatif.base import Semantics
from skyline.whatif.catalogue.models.fused_optimizer import WHATIF as FUSED
from skyline.whatif.question import Choice, Question


@pytest.fixture
def analysis(profile) -> Analysis:
    return analyse(profile)


def by_trying_all(analysis: Analysis, names: tuple[str, ...], memory_bytes: float) -> float:
    offered = [("", *applicability(analysis, name).values, "default") for name in names]
    fastest = 1.0
    for values in product(*offered):
        choices = tuple(
            Choice(name, "" if value == "default" else value)
            for name, value in zip(names, values, strict=True)
            if value
        )
        answer = estimate(analysis, Question(choices=choices))
        if answer.applicable and answer.peak_bytes.value <= memory_bytes:
            fastest = max(fastest, answer.speedup)
    return fastest


@pytest.mark.parametrize("memory_bytes", [1e12, 120e6, 80e6])
def test_it_is_about_as_good_as_the_best_of_all(analysis, memory_bytes) -> None:
    found = best(analysis, Constraints(memory_bytes))
    assert found.estimate is not None
    assert found.estimate.peak_bytes.value <= memory_bytes
    everything = by_trying_all(analysis, ("batch_size", "fused_optimizer", "num_workers"), memory_bytes)
    assert found.estimate.speedup >= 0.99 * everything


def test_the_answer_is_that_of_its_question(analysis) -> None:
    found = best(analysis)
    assert found.estimate == estimate(analysis, found.question)


def test_only_what_leaves_the_results_as_they_are(analysis) -> None:
    found = best(analysis, Constraints(semantics=Semantics.EXACT))
    assert found.estimate is not None
    assert found.estimate.semantics == "exact"
    assert "batch_size" not in {choice.name for choice in found.question.choices}


def test_every_part_brings_something(analysis) -> None:
    found = best(analysis)
    assert found.estimate is not None
    for part in found.question.choices:
        less = tuple(choice for choice in found.question.choices if choice != part)
        assert estimate(analysis, Question(choices=less)).speedup < found.estimate.speedup


def test_a_limit_below_everything_is_said(analysis) -> None:
    found = best(analysis, Constraints(1e3))
    assert found.estimate is None
    assert "memory" in found.reason


def test_a_script_that_cannot_be_made_faster_stays(profile, monkeypatch) -> None:
    monkeypatch.setattr("skyline.analysis.best.whatifs", lambda: {"fused_optimizer": FUSED})
    found = best(analyse(replace(profile, optimizers=())))
    assert found.question.choices == ()
    assert found.estimate is not None
    assert found.estimate.speedup == pytest.approx(1.0)
