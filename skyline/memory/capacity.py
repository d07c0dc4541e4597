"""The memory of the device that is available to tensors."""

from __future__ import annotations

from skyline.trace.facts import DeviceMemoryFact
from skyline.trace.profile import Profile

ASSUMED_CONTEXT_BYTES = 600_000_000
"""Of a CUDA context with PyTorch's kernels and libraries on a GPU that cannot be asked.

An assumption: less than the 781 MB of pytorch/pytorch issue 34323, which is from before CUDA loaded kernels one by one.
"""
ASSUMED_FRAGMENTS = 0.05
"""The share of the rest that PyTorch's allocator is assumed to lose to fragments there."""


def usable_bytes(profile: Profile) -> int | None:
    """The capacity without the memory that other programs, and this process outside its tensors, hold.

    None where the capacity is not known. On a machine whose device did not say what else it holds, all of it;
    of a GPU that is only predicted, all but what the two constants above assume.
    """
    if profile.device_memory is not None:
        return usable_on_device(profile.device_memory)
    if profile.prediction is not None:
        return usable_elsewhere(profile.environment.memory_capacity_bytes)
    return profile.environment.memory_capacity_bytes or None


def usable_elsewhere(capacity_bytes: int) -> int:
    """Of a GPU that is not here and cannot be asked: all but what the two constants above assume."""
    return max(0, round((capacity_bytes - ASSUMED_CONTEXT_BYTES) * (1.0 - ASSUMED_FRAGMENTS)))


def usable_on_device(memory: DeviceMemoryFact) -> int:
    """The device's memory less the context and other processes, and less what its allocator loses to fragments.

    The allocator is taken to lose the same share at other sizes as it did in the run.
    """
    free = max(0, memory.total_bytes - memory.context_bytes - memory.other_process_bytes)
    return round(free * (1.0 - fragmentation(memory)))


def fragmentation(memory: DeviceMemoryFact) -> float:
    """The share of what the allocator reserved that no tensor used even at the peak."""
    if memory.reserved_bytes <= 0:
        return 0.0
    return max(0.0, 1.0 - memory.allocated_peak_bytes / memory.reserved_bytes)
