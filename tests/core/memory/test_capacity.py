from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.capture.child.recording.memory import share_of, split
from skyline.memory.peak import fragmentation, usable_bytes
from skyline.trace.facts import DeviceMemoryFact

GB = 10**9
# The form of torch.cuda.memory_stats(), with round numbers.
STATS = {
    "allocated_bytes.all.current": 6 * GB,
    "allocated_bytes.all.peak": 9 * GB,
    "reserved_bytes.all.current": 10 * GB,
    "reserved_bytes.all.peak": 10 * GB,
}


def test_the_driver_tells_the_context_from_other_processes():
    memory = DeviceMemoryFact(**split(STATS, free=8 * GB, total=24 * GB, own_bytes=11 * GB))
    assert (memory.context_bytes, memory.other_process_bytes) == (1 * GB, 5 * GB)
    assert (memory.reserved_bytes, memory.allocated_peak_bytes) == (10 * GB, 9 * GB)


def test_the_share_of_a_process_is_read_from_what_pytorch_prints():
    sizes = {4321: 1024.5, 21: 1.0}
    printed = "\n".join(f"process {one:>10d} uses {size:>12.3f} MB GPU memory" for one, size in sizes.items())
    assert share_of(4321, printed) == 1024 * 2**20 + 2**19
    assert share_of(21, printed) == 2**20
    assert share_of(432, printed) is None
    assert share_of(21, "pynvml module not found, please install nvidia-ml-py") is None


def test_without_the_driver_all_that_is_beside_the_allocator_is_context():
    memory = DeviceMemoryFact(**split(STATS, free=8 * GB, total=24 * GB))
    assert (memory.context_bytes, memory.other_process_bytes) == (6 * GB, 0)


@pytest.mark.parametrize("own", [None, 11 * GB, 16 * GB, 99 * GB])
def test_the_parts_never_exceed_what_is_in_use(own):
    memory = split(STATS, free=8 * GB, total=24 * GB, own_bytes=own)
    held = memory["context_bytes"] + memory["other_process_bytes"] + STATS["reserved_bytes.all.current"]
    assert held == 16 * GB


def test_what_fits_is_judged_without_context_others_and_fragments(profile):
    memory = DeviceMemoryFact(**split(STATS, free=8 * GB, total=24 * GB, own_bytes=11 * GB))
    assert fragmentation(memory) == pytest.approx(0.1)
    assert usable_bytes(replace(profile, device_memory=memory)) == pytest.approx(18 * GB * 0.9)


def test_without_a_device_it_is_the_capacity(profile):
    assert usable_bytes(profile) == profile.environment.memory_capacity_bytes
    unknown = replace(profile.environment, memory_capacity_bytes=0)
    assert usable_bytes(replace(profile, environment=unknown)) is None
