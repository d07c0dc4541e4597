from __future__ import annotations

from dataclasses import replace

from skyline.findings.near_capacity import RULE

MB = 1_000_000


def machine(profile, capacity_mb):
    environment = replace(profile.environment, memory_capacity_bytes=capacity_mb * MB)
    return replace(profile, environment=environment)


def test_a_peak_close_to_the_memory_there_is(profile, checked):
    found = checked(RULE, machine(profile, 80))
    assert (found.line, found.cost_ms, found.whatif) == (5, 0, "checkpointing")
    assert "75.0 MB" in found.title
    assert "activations" in found.evidence[0].text


def test_a_peak_beyond_it(profile, checked):
    assert "does not fit" in checked(RULE, machine(profile, 60)).title


def test_room_enough_or_unknown_memory_is_left_alone(profile, traced, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, machine(profile, 0)) is None
    assert checked(RULE, traced) is None
