"""A saved profile in place of runs: its iteration is the one anchor of the curve."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from skyline.interval import Interval
from skyline.sweep import this_processor
from skyline.sweep.collected import Collected
from skyline.sweep.point import Provenance, SweepPoint
from skyline.sweep.setting import SweptScript
from skyline.sweep.this_processor import fit_to_saved
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes

SAVED = BareTimes((8.0, 8.0, 8.0), (0.0,) * 3, (4.0,) * 3, (1.0,) * 3)


def predicted(value: int, time: float) -> SweepPoint:
    return SweepPoint((value,), Interval.exact(time), provenance=Provenance.PREDICTED)


def collected(*points: SweepPoint) -> Collected:
    made = Collected(len(points), 60.0, lambda _: None)
    for one in points:
        made.add(one)
    return made


def fitted(profile: Profile, points: Collected, present: int | None) -> bool:
    setting: Any = SimpleNamespace(place=SimpleNamespace(value=present))
    unused: Any = None
    script = SweptScript(unused, (setting,), unused)
    return fit_to_saved(replace(profile, times=SAVED), script, unused, points)


def test_the_present_value_takes_the_time_of_the_profile_and_the_others_its_factor(profile: Profile) -> None:
    points = collected(predicted(64, 4.0), predicted(128, 6.0))
    assert fitted(profile, points, 64)
    first, second = points.points
    assert (first.iteration_ms.value, first.provenance) == (8.0, Provenance.MEASURED)
    assert second.provenance is Provenance.INTERPOLATED
    assert second.iteration_ms.low < second.iteration_ms.value < second.iteration_ms.high


def test_a_present_value_outside_the_sweep_is_traced_for_the_fit_alone(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predict(_: SweptScript, gpu: Any, wanted: list[tuple[int]], alone: Collected) -> None:
        alone.add(predicted(wanted[0][0], 4.0))

    monkeypatch.setattr(this_processor, "predict_points", predict)
    points = collected(predicted(128, 4.0))
    assert fitted(profile, points, 64)
    (only,) = points.points
    assert only.values == (128,)
    assert only.iteration_ms.value == pytest.approx(8.0)
    assert only.provenance is Provenance.INTERPOLATED


def test_runs_of_this_sweep_stand_before_a_profile(profile: Profile) -> None:
    ran = replace(predicted(64, 5.0), provenance=Provenance.MEASURED)
    points = collected(ran, predicted(128, 6.0))
    assert not fitted(profile, points, 64)
    assert points.points == (ran, predicted(128, 6.0))


def test_a_present_value_that_is_not_known_fits_nothing(profile: Profile) -> None:
    points = collected(predicted(64, 4.0))
    assert not fitted(profile, points, None)
    assert points.points[0].provenance is Provenance.PREDICTED
