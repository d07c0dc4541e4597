from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.small_batch import RULE


def flat(profile, ratio, peak_mb=109):
    """Twice the batch takes ``ratio`` times as long."""
    small, large = profile.trials
    ratios = tuple(ratio * (1 + offset / 100) for offset in (-2, -1, -1, 0, 0, 0, 1, 1, 2))
    return replace(profile, trials=(small, replace(large, ratios=ratios, peak_bytes=peak_mb * 1_000_000)))


def test_a_size_that_was_run_and_is_much_faster_per_sample(profile, checked):
    found = checked(RULE, flat(profile, 1.2))
    assert (found.line, found.whatif) == (2, "batch_size=32")
    # 32 samples in 12 ms: the 16 of now would take 6 of them.
    assert found.cost_ms == pytest.approx(4.0, abs=0.2)
    assert "1.6" in found.title


def test_little_gain_and_what_does_not_fit_are_left_alone(profile, gpu_profile, traced, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, flat(profile, 1.2, peak_mb=2000)) is None
    assert checked(RULE, gpu_profile) is None
    assert checked(RULE, traced) is None
