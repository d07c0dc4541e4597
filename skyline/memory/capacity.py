"""How much of the device's memory tensors can have."""

from __future__ import annotations

from skyline.trace.facts import DeviceMemoryFact
from skyline.trace.profile import Profile

_CONTEXT_BYTES = 600_000_000
_FRAGMENTS = 0.05
"""What a CUDA context with its libraries, and the fragments of PyTorch's allocator, usually take of a GPU."""


def usable_bytes(profile: Profile) -> int | None:
    """What "fits" is judged against: the capacity without what others and this process hold beside its tensors.

    None where the capacity is not known. On a machine whose device did not say what else it holds, all of it;
    of a GPU that is only predicted, what is usual.
    """
    if profile.device_memory is not None:
        return usable_on_device(profile.device_memory)
    if profile.prediction is not None:
        # A GPU that is not here cannot be asked.
        return round((profile.environment.memory_capacity_bytes - _CONTEXT_BYTES) * (1.0 - _FRAGMENTS))
    return profile.environment.memory_capacity_bytes or None


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
