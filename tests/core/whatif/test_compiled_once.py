"""A model that is called several times in an iteration is compiled once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import ModuleFact
from skyline.trace.profile import Profile
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice


def once_s(profile: Profile, calls: float) -> float:
    """Seconds of compiling, where the model is called so often."""
    root = profile.trace.modules[0].partition(".")[0]
    fact = ModuleFact(root, root, False, 0, False, {}, calls)
    start = baseline(replace(profile, modules=(fact,)))
    once = compose(start, [Choice("compile")]).scenario.one_off_s
    assert once is not None
    return once.value


def test_operators_count_once(profile: Profile) -> None:
    two, four, eight = (once_s(profile, calls) for calls in (2.0, 4.0, 8.0))
    assert (two - four) == pytest.approx(2 * (four - eight))


def test_a_model_that_was_not_seen_to_be_called_counts_as_called_once(profile: Profile) -> None:
    assert once_s(profile, 0.0) == once_s(profile, 1.0)
