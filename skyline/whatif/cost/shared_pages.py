"""The copies of memory after a fork: the script and its new workers share all pages until one of them writes."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.memory.growth import LARGE_BYTES
from skyline.trace.profile import Profile
from skyline.whatif.constant import Constant

_COPIED = Constant(
    1.0,
    0.5,
    2.0,
    "copied memory over that which an iteration uses: 0.5 to 1.3 on two threads and 1.3 to 2.5 on one, "
    "benchmarks/copy_after_fork.py",
)


def copies_ms(profile: Profile) -> Interval:
    """The time in which the iteration after a fork copies the memory that it uses; 0 if the rate was not measured."""
    return _COPIED.scaled(profile.copied_us_per_mb * used_bytes(profile) / 1e9)


def used_bytes(profile: Profile) -> int:
    """The memory in bytes that each iteration writes again: of weights and their optimizer, and smaller blocks.

    glibc returns larger blocks to the system, so that each iteration gets new pages for them.
    """
    memory = profile.memory
    level = most = memory.parameter_bytes + memory.gradient_bytes + memory.optimizer_bytes
    for one in profile.trace.allocations:
        if abs(one.size_bytes) <= LARGE_BYTES:
            level += one.size_bytes
            most = max(most, level)
    return most
