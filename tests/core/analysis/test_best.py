"""The best combination: that it is as good as the best found by trying all, and that it keeps to its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.best import Constraints, best
from skyline.analysis.estimate import answer_or_reason, estimate
from skyline.interval import Interval
from skyline.whatif.base import Semantics
from skyline.whatif.catalogue.models.fused_optimizer import WHATIF as FUSED
from skyline.whatif.composition import detected_in
from skyline.whatif.question import Choice, Question
from skyline.whatif.registry import whatif_named


@pytest.fixture
def analysis(profile) -> Analysis:
    return analyse(profile)


def by_trying_all(analysis: Analysis, names: tuple[str, ...], memory_bytes: float) -> float:
    offered = [("", *detected_in(analysis.baseline, whatif_named(name)).values, "default") for name in names]
    fastest = 1.0
    for values in product(*offered):
        choices = tuple(
            Choice(name, "" if value == "default" else value)
            for name, value in zip(names, values, strict=True)
            if value
        )
        answer = estimate(analysis, Question(choices=choices))
        if answer.applicable and answer.peak_bytes.value <= memory_bytes:
            fastest = max(fastest, answer.sure_speedup)
    return fastest


@pytest.mark.parametrize("memory_bytes", [1e12, 120e6, 80e6])
def test_it_is_about_as_good_as_the_best_of_all(analysis, memory_bytes) -> None:
    found = best(analysis, Constraints(memory_bytes))
    assert found.estimate is not None
    assert found.estimate.peak_bytes.value <= memory_bytes
    everything = by_trying_all(analysis, ("batch_size", "fused_optimizer", "num_workers"), memory_bytes)
    assert found.estimate.sure_speedup >= 0.99 * everything


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
        assert estimate(analysis, Question(choices=less)).sure_speedup < found.estimate.sure_speedup


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


def test_what_it_did_not_try_is_said_and_never_taken_for_no_change(analysis, monkeypatch) -> None:
    monkeypatch.setattr("skyline.analysis.best._MOST_TRIED", 4)
    found = best(analysis)
    assert found.tried <= 4
    # Each part that was not asked by itself, and the search as a whole.
    assert sum("not tried" in one for one in found.left_out) > 2
    assert found.left_out[-1].startswith("the search ended after")


def test_a_gain_that_may_be_none_is_not_taken(analysis, monkeypatch) -> None:
    """Five times as fast, or a little slower."""
    sure = estimate(analysis, Question(choices=(Choice("fused_optimizer"),)))
    unsure = replace(sure, speedup=5.0, effect_range=Interval(5.0, 0.99, 40.0))

    def answers(subject, choices, rewrites=None):
        names = {choice.name for choice in choices}
        real = answer_or_reason(subject, choices, rewrites)
        return unsure if names == {"fused_optimizer"} else real

    monkeypatch.setattr("skyline.analysis.best.answer_or_reason", answers)
    monkeypatch.setattr("skyline.analysis.best.whatifs", lambda: {"fused_optimizer": FUSED})
    assert best(analysis).question.choices == ()
