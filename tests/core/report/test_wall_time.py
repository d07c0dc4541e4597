"""The wall time beyond typical iterations, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.report.wall_time import wall_time_of
from skyline.trace.facts import MachineLoad
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


def test_each_kind_of_other_work_has_its_share(profile: Profile) -> None:
    # Of the last iteration 40 ms evaluate, 30 save, 20 play, 10 log, and 10 are not known.
    uneven = timed(profile, [10.0] * 9 + [120.0])
    parts = {"evaluation_ms": 40.0, "saving_ms": 30.0, "rollout_ms": 20.0, "logging_ms": 10.0}
    times = replace(uneven.times, **{name: (0.0,) * 9 + (ms,) for name, ms in parts.items()})
    found = wall_time_of(replace(uneven, times=times), 10.0)
    assert found is not None
    assert found.evaluation == pytest.approx(40 / 210)
    assert found.checkpoints == pytest.approx(30 / 210)
    assert found.rollouts == pytest.approx(20 / 210)
    assert found.logging == pytest.approx(10 / 210)
    assert found.other == pytest.approx(10 / 210)
    assert found.remark.endswith("evaluation 19 %, checkpoints 14 %, roll-outs 10 %")


def test_work_of_every_iteration_is_part_of_the_typical_one(profile: Profile) -> None:
    uneven = timed(profile, [10.0] * 9 + [120.0])
    found = wall_time_of(replace(uneven, times=replace(uneven.times, rollout_ms=(4.0,) * 10)), 10.0)
    assert found is not None
    assert found.rollouts == 0.0


def test_one_line_has_the_mean_and_the_causes(profile: Profile) -> None:
    found = wall_time_of(timed(profile, [10.0] * 9 + [120.0], [2.0] * 9 + [62.0]), 10.0)
    assert found is not None
    rate = f"{found.throughput:.0f} samples/s"
    said = f"Mean iteration 21.0 ms, {rate}: 2.10x the median, 1 of 10 long; data 29 %, other 24 %"
    assert found.remark == said


def test_the_line_fits_where_all_causes_are_in_it(profile: Profile) -> None:
    steps, data = [180.0] * 88 + [720.0] * 12, [2.0] * 88 + [402.0] * 12
    slow = timed(replace(profile, batch=replace(profile.batch, samples_per_iteration=2048)), steps, data)
    slow = replace(slow, times=replace(slow.times, backward_ms=(3.0,) * 88 + (43.0,) * 12))
    found = wall_time_of(slow, 180.0)
    assert found is not None
    assert all(f"{cause} " in found.remark for cause in ("data", "passes", "other"))
    assert len(found.remark) <= 110


def test_other_programs_made_the_long_iterations_of_a_busy_machine(profile: Profile) -> None:
    busy = replace(timed(profile, [10.0] * 9 + [120.0]), load=MachineLoad(1.0, 1.0, 2))
    found = wall_time_of(busy, 10.0)
    assert found is not None
    assert found.remark == ""
