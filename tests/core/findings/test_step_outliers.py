from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.step_outliers import RULE
from skyline.trace.facts import CallFact
from skyline.trace.record import BareTimes


def steps(profile, slow, part="data", count=30, excess=20.0):
    """Iterations of 10 ms, those at ``slow`` longer by ``excess`` in one part."""
    extra = [excess if place in slow else 0.0 for place in range(count)]
    wobble = [(place % 5) / 50 for place in range(count)]
    parts = {"data": 1.0, "backward": 4.0, "optimizer": 1.0}
    columns = {
        name: tuple(ms + (more if name == part else 0.0) for more in extra) for name, ms in parts.items()
    }
    whole = tuple(10.0 + more + small for more, small in zip(extra, wobble, strict=True))
    return replace(
        profile, times=BareTimes(whole, columns["data"], columns["backward"], columns["optimizer"])
    )


def test_stalls_of_the_loader_are_counted_and_placed(profile, checked):
    found = checked(RULE, steps(profile, {3, 12, 21}))
    assert found.title.startswith("3 of 30 iterations take up to 30.1 ms in place of 10.0 ms")
    assert "data loading" in found.title
    assert found.line == 2
    assert found.cost_ms == pytest.approx(2.0, rel=0.05)
    assert "30 iterations were seen" in found.evidence[0].text


def test_the_line_is_that_of_the_part(profile, checked):
    backward = CallFact("backward", 1.0, profile.trace.lines[4])
    slow = {1, 6, 11, 16, 21, 26}
    assert checked(RULE, replace(steps(profile, slow, "backward"), calls=(backward,))).line == 6
    assert checked(RULE, steps(profile, {3, 12}, "optimizer")).line == 7
    assert checked(RULE, steps(profile, slow, "rest", excess=30.0)).line == 4


def test_what_a_busy_machine_may_have_done_is_not_blamed(profile, checked):
    # Two of two in the backward pass are no surprise: it is much of the iteration.
    assert checked(RULE, steps(profile, {3, 12}, "backward")) is None
    one = steps(profile, {3}, "data", excess=40.0).times
    other = steps(profile, {12}, "backward", excess=40.0).times
    mixed = BareTimes(
        *(
            tuple(max(pair) for pair in zip(getattr(one, name), getattr(other, name), strict=True))
            for name in ("steps_ms", "data_ms", "backward_ms", "optimizer_ms")
        )
    )
    assert checked(RULE, replace(profile, times=mixed)) is None


def test_steady_short_and_half_slow_runs_are_left_alone(profile, traced, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, steps(profile, {3, 7}, count=10)) is None
    assert checked(RULE, steps(profile, set(range(0, 30, 2)))) is None
    assert checked(RULE, steps(profile, {3, 12}, excess=6.0)) is None
    assert checked(RULE, traced) is None
