from __future__ import annotations

import pytest

from skyline.memory.peak import bytes_at_peak, peak_breakdown, replay
from skyline.memory.timeline import memory_timeline

MB = 1_000_000


def test_the_timeline_goes_from_allocation_to_allocation_and_ends_at_what_is_alive(profile):
    points = memory_timeline(profile.memory, profile.trace, 12.0)
    assert [point.live_bytes // MB for point in points] == [41, 45, 35, 65, 70, 65, 75, 45, 41]
    assert points[-1].live_bytes == profile.memory.total_bytes
    assert points[1].time_ms == pytest.approx(0.1)
    assert points[-1].time_ms == pytest.approx(9.5)


def test_its_owners_sum_and_agree_with_the_breakdown_of_the_peak(profile):
    points = memory_timeline(profile.memory, profile.trace, 12.0)
    for point in points:
        owners = point.parameters + point.gradients + point.optimizer + point.activations + point.other
        assert owners == point.live_bytes
    highest = max(points, key=lambda point: point.live_bytes)
    peak = peak_breakdown(profile)
    assert (highest.parameters, highest.gradients, highest.optimizer, highest.activations, highest.other) == (
        peak.parameters, peak.gradients, peak.optimizer, peak.activations, peak.other
    )  # fmt: skip


def test_time_is_brought_to_the_bare_iteration(profile):
    recorded = memory_timeline(profile.memory, profile.trace, 12.0)
    bare = memory_timeline(profile.memory, profile.trace, 6.0)
    assert [point.time_ms * 2 for point in bare] == pytest.approx([point.time_ms for point in recorded])


def test_few_points_keep_the_peak_and_both_ends(profile):
    all_points = memory_timeline(profile.memory, profile.trace, 12.0)
    few = memory_timeline(profile.memory, profile.trace, 12.0, most=4)
    assert len(few) == 4
    assert (few[0], few[-1]) == (all_points[0], all_points[-1])
    assert max(point.live_bytes for point in few) == replay(profile.memory, profile.trace.allocations).total


def test_without_allocations_there_is_none(profile):
    from dataclasses import replace

    assert memory_timeline(profile.memory, replace(profile.trace, allocations=()), 12.0) == ()


def test_at_the_peak_each_line_has_what_it_took_and_not_yet_gave_back(profile):
    # The batch (4 MB, line 0), the activation and the new gradient (30 and 10 MB, line 1); the 5 MB are gone.
    assert bytes_at_peak(profile.memory, profile.trace.allocations) == {0: 4 * MB, 1: 40 * MB}
