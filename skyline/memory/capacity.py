"""The memory of the device that is available to tensors, and whether a peak fits into it."""

from __future__ import annotations

from enum import Enum

from skyline.interval import Interval
from skyline.trace.facts import DeviceMemoryFact
from skyline.trace.profile import Profile

ASSUMED_CONTEXT_BYTES = 600_000_000
"""Size of a CUDA context with PyTorch's kernels and libraries, for a GPU that cannot be queried.

An assumption: less than the 781 MB of pytorch/pytorch issue 34323, which predates lazy loading of kernels in CUDA.
"""
ASSUMED_FRAGMENTS = 0.05
"""Assumed share of the remaining memory that PyTorch's allocator loses to fragmentation on such a GPU."""


def usable_bytes(profile: Profile) -> int | None:
    """The device's capacity minus memory of other programs and memory of this process outside its tensors, in bytes.

    None if the capacity is unknown. The whole capacity if the device did not report its other memory. For a predicted
    GPU, the capacity minus the two constants above.
    """
    if profile.device_memory is not None:
        return usable_on_device(profile.device_memory)
    if profile.prediction is not None:
        return usable_elsewhere(profile.environment.memory_capacity_bytes)
    return profile.environment.memory_capacity_bytes or None


def usable_elsewhere(capacity_bytes: int) -> int:
    """Usable bytes of a GPU that is absent and cannot be queried: the capacity minus the two constants above."""
    return max(0, round((capacity_bytes - ASSUMED_CONTEXT_BYTES) * (1.0 - ASSUMED_FRAGMENTS)))


def usable_on_device(memory: DeviceMemoryFact) -> int:
    """The device's memory minus the context, other processes and the allocator's fragmentation, in bytes.

    The fragmentation is assumed to be the same share at other sizes as in the run.
    """
    free = max(0, memory.total_bytes - memory.context_bytes - memory.other_process_bytes)
    return round(free * (1.0 - fragmentation(memory)))


def fragmentation(memory: DeviceMemoryFact) -> float:
    """The share of the allocator's reserved memory that no tensor used even at the peak."""
    if memory.reserved_bytes <= 0:
        return 0.0
    return max(0.0, 1.0 - memory.allocated_peak_bytes / memory.reserved_bytes)


class Fit(str, Enum):
    """The verdict on a peak and a capacity."""

    FITS = "fits"
    UNSURE = "unsure"
    TOO_LARGE = "too large"


def fit(peak_bytes: Interval, usable_bytes: int | None) -> Fit:
    """The fit of an uncertain peak into the memory available to tensors; if that is unknown, nothing is too large."""
    if not usable_bytes:
        return Fit.FITS
    if peak_bytes.low > usable_bytes:
        return Fit.TOO_LARGE
    return Fit.UNSURE if peak_bytes.high > usable_bytes else Fit.FITS
