"""The wall time beyond typical iterations, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.interval import Interval
from skyline.report.schema import ProfileReport
from skyline.report.wall_time import wall_time_of, wall_time_remark
from skyline.trace.profile import Profile
from skyline.trace.record import BareTimes


def timed(profile: Profile, steps: list[float], data: list[float] | None = None) -> Profile:
    """Iterations with passes of 4 ms each; by default batches are there at once."""
    count = len(steps)
    times = BareTimes(tuple(steps), tuple(data or [0.0] * count), (3.0,) * count, (1.0,) * count)
    return replace(profile, times=times)


def test_even_iterations_have_nothing_to_tell(profile: Profile) -> None:
    assert wall_time_of(timed(profile, [10.0] * 9 + [12.0]), 10.0) is None
    assert wall_time_of(timed(profile, [10.0, 90.0]), 10.0) is None, "too few"


def test_rollouts_are_a_share_of_the_wall_time(profile: Profile) -> None:
    # Nine updates of 10 ms, and one before which the script plays for 110 ms.
    found = wall_time_of(timed(profile, [10.0] * 9 + [120.0]), 10.0)
    assert found is not None
    assert (found.iterations, found.long_iterations, found.mean_ms) == (10, 1, 21.0)
    assert found.typical == pytest.approx(100 / 210)
    assert found.other == pytest.approx(110 / 210)
    assert found.data == found.passes == 0.0


def test_stalls_of_the_loader_are_told_apart(profile: Profile) -> None:
    found = wall_time_of(timed(profile, [10.0] * 9 + [120.0], [2.0] * 9 + [62.0]), 10.0)
    assert found is not None
    assert found.data == pytest.approx(60 / 210)
    assert found.other == pytest.approx(50 / 210)
    assert found.typical + found.data + found.passes + found.other == pytest.approx(1.0)


def test_a_host_that_runs_ahead_does_not_exceed_the_whole(profile: Profile) -> None:
    found = wall_time_of(timed(profile, [10.0] * 9 + [60.0], [2.0] * 9 + [500.0]), 10.0)
    assert found is not None
    assert found.data == pytest.approx(50 / 150)
    assert found.other == pytest.approx(0.0)


def test_the_sentence_names_the_mean_and_the_causes(profile: Profile, profile_report: ProfileReport) -> None:
    found = wall_time_of(timed(profile, [10.0] * 9 + [120.0]), 10.0)
    uneven = replace(profile_report, iteration_ms=Interval.exact(10.0), wall_time=found)
    said = wall_time_remark(uneven)
    assert said.startswith("The mean iteration takes 21.0 ms")
    assert "2.10 times the typical one, because of 1 long iteration of 10" in said
    assert "48 % typical iterations, 52 % other work of the script, such as roll-outs" in said
    assert wall_time_remark(profile_report) == ""
    assert wall_time_remark(replace(uneven, machine_busy=True)) == "", "others made the long iterations"
