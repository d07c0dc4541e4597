from __future__ import annotations

from dataclasses import replace

from skyline.findings.growing_memory import RULE
from skyline.trace.record import Allocation, Phase

MB = 1_000_000


def levels(profile, changes, kept=()):
    level, seen = 100 * MB, [100 * MB]
    for change in changes:
        level += change
        seen.append(level)
    times = replace(profile.times, memory_bytes=tuple(seen))
    trace = replace(profile.trace, allocations=(*profile.trace.allocations, *kept))
    return replace(profile, times=times, trace=trace)


def test_memory_that_grows_in_every_iteration(profile, checked):
    end = profile.trace.iterations[-1].end_us
    kept = Allocation(end - 50, 2 * MB, 777, Phase.OTHER, 3)
    found = checked(RULE, levels(profile, [2 * MB] * 10, (kept,)))
    assert found.title.startswith("each iteration keeps 2.0 MB")
    assert found.line == 8
    assert "10 of 10" in found.evidence[0].text


def test_now_and_then_little_or_too_few(profile, traced, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, levels(profile, [2 * MB, -2 * MB] * 6)) is None
    assert checked(RULE, levels(profile, [20 * MB, *[0] * 11])) is None
    assert checked(RULE, levels(profile, [2000] * 12)) is None
    assert checked(RULE, levels(profile, [2 * MB] * 4)) is None
    assert checked(RULE, traced) is None
