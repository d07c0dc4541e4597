from __future__ import annotations

from dataclasses import replace

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.analysis.rewrites import Rewrites
from skyline.whatif.question import Choice, Question


def test_a_change_with_a_rewrite_is_available(profile):
    assert Rewrites(profile).availability([("fused_optimizer", "")]) == ("available", None)


def test_a_change_without_a_rewrite_says_so(profile):
    assert Rewrites(profile).availability([("teleport", "")]) == ("none", None)


def test_sources_that_were_not_saved_are_a_reason(profile):
    answer, reason = Rewrites(replace(profile, sources=())).availability([("num_workers", "2")])
    assert answer == "refused"
    assert "train.py is not among the sources" in reason


def test_the_part_that_is_refused_is_named(profile):
    refused = replace(profile, knobs=replace(profile.knobs, candidates=(), tried=("nothing found",)))
    estimated = estimate(analyse(refused), Question(32, (Choice("fused_optimizer"),)))
    assert estimated.rewrite == "refused"
    assert estimated.rewrite_reason.startswith("batch_size: ")
