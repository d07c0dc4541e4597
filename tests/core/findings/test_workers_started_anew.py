from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.workers_started_anew import RULE
from skyline.trace.facts import LoaderFact
from skyline.whatif.loader_setting import start_ms


def epochs(profile, samples, **options):
    loader = replace(LoaderFact(16, 2, samples, 1.0, created_line=profile.loop_line), **options)
    return replace(profile, loaders=(loader,))


def test_short_epochs_start_workers_all_the_time(profile, checked):
    found = checked(RULE, epochs(profile, 320))
    each = start_ms(profile, 2)
    assert found.cost_ms == pytest.approx(each.value / 20)
    assert found.whatif == "persistent_workers"
    assert "20 iterations" in found.title


def test_long_epochs_persistent_workers_and_endless_sets_are_left_alone(profile, checked):
    assert checked(RULE, epochs(profile, 100_000)) is None
    assert checked(RULE, epochs(profile, 320, persistent_workers=True)) is None
    assert checked(RULE, epochs(profile, None)) is None
    assert checked(RULE, epochs(profile, 320, num_workers=0)) is None
