from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.small_batch import RULE


def flat(profile, ratio, peak_mb=109, percent=1):
    """Twice the batch takes ``ratio`` times as long; rounds differ by ``percent``."""
    small, large = profile.trials
    ratios = tuple(ratio * (1 + percent * offset / 100) for offset in (-2, -1, -1, 0, 0, 0, 1, 1, 2))
    return replace(profile, trials=(small, replace(large, ratios=ratios, peak_bytes=peak_mb * 1_000_000)))


def test_a_size_that_was_run_and_is_much_faster_per_sample(profile, checked):
    found = checked(RULE, flat(profile, 1.2))
    assert (found.line, found.whatif) == (2, "batch_size=32")
    # 32 samples in 12 ms: the 16 of now would take 6 of them.
    assert found.cost_ms == pytest.approx(4.0, abs=0.2)
    assert "1.6" in found.title


def test_the_cost_is_the_one_at_the_low_end_of_the_range_which_the_sentence_names(profile, checked):
    found = checked(RULE, flat(profile, 1.2, percent=10))
    assert "1.67x (1.52–1.85x) samples per second with 32" in found.title
    # At 1.52 times the speed, 10 ms of work take 6.6 ms.
    assert found.cost_ms == pytest.approx(10 * (1 - 1.2 * 1.1 / 2), abs=0.1)
    assert "1.20x (1.08–1.32x) as long" in found.evidence[0].text


def test_a_shorter_iteration_with_more_samples_is_not_believed(profile, checked):
    found = checked(RULE, flat(profile, 0.54, percent=30))
    assert "2.00x samples per second" in found.title
    assert found.cost_ms == pytest.approx(5.0, abs=0.01)


def test_a_range_that_begins_below_a_quarter_is_no_finding(profile, checked):
    assert checked(RULE, flat(profile, 1.2, percent=40)) is None


def test_little_gain_and_what_does_not_fit_are_left_alone(profile, gpu_profile, traced, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, flat(profile, 1.2, peak_mb=2000)) is None
    assert checked(RULE, gpu_profile) is None
    assert checked(RULE, traced) is None
