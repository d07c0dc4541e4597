from __future__ import annotations

from dataclasses import replace

from skyline.findings.fragmented_memory import RULE
from skyline.trace.facts import DeviceMemoryFact

GB = 10**9


def held(profile, reserved, allocated, total=16 * GB):
    memory = DeviceMemoryFact(total, total - reserved, allocated, reserved, 0, 0)
    return replace(profile, device_memory=memory)


def test_much_that_no_tensor_uses(gpu_profile, checked):
    found = checked(RULE, held(gpu_profile, 10 * GB, 7 * GB))
    assert "3.0 GB" in found.title
    assert "30%" in found.title
    assert (found.line, found.cost_ms) == (4, 0)


def test_little_is_not_missed(gpu_profile, profile, traced, checked):
    assert checked(RULE, held(gpu_profile, 10 * GB, 9 * GB)) is None
    assert checked(RULE, held(gpu_profile, GB // 2, GB // 10)) is None
    assert checked(RULE, profile) is None
    assert checked(RULE, traced) is None
