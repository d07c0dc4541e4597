"""The part of a range that no case of a model has: by effect, by number of changes, and in answers."""

from __future__ import annotations

import math

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import BEYOND_MODEL, WHOLE, beyond, beyond_model, estimate
from skyline.whatif.question import Choice, Question

FUSED, THREADS = Choice("fused_optimizer"), Choice("cpu_threads", "4")


@pytest.mark.parametrize(
    ("effect", "changes", "share"),
    [(0.0, 1, 0.0), (0.02, 1, 0.4), (-0.02, 1, 0.4), (0.7, 1, 1.0), (-2.0, 4, 2.0)],
)
def test_it_grows_with_the_effect_up_to_a_bound_and_with_the_root_of_the_changes(effect, changes, share):
    assert WHOLE.value == 0.05
    assert beyond(math.exp(effect), changes, 0.1) == pytest.approx(0.1 * share)


def test_answers_contain_it_independently_of_their_other_parts(profile, monkeypatch):
    analysis = analyse(profile)

    def asked(*choices):
        return estimate(analysis, Question(None, choices))

    for choices in ((FUSED,), (THREADS,), (FUSED, THREADS)):
        found = asked(*choices)
        ratio = found.iteration_ms.value / analysis.baseline.iteration_ms.value
        part = math.exp(beyond(ratio, len(choices), BEYOND_MODEL.value)) - 1
        with monkeypatch.context() as patched:
            patched.setattr("skyline.analysis.estimate.beyond_model", lambda *_: 0.0)
            alone = asked(*choices)
        for wide, narrow in ((found.change_ms, alone.change_ms), (found.iteration_ms, alone.iteration_ms)):
            more = part * found.iteration_ms.value
            assert wide.value - wide.low == pytest.approx(math.hypot(narrow.value - narrow.low, more))
            assert wide.high - wide.value == pytest.approx(math.hypot(narrow.high - narrow.value, more))
        # It is alike for all changes, and changes are compared without it.
        assert found.effect_range == alone.effect_range


def test_a_script_that_was_not_measured_on_a_processor_has_none(gpu_profile):
    assert beyond_model(analyse(gpu_profile).baseline, 0.5, 1) == 0.0
