"""The level of live tensor memory over a recorded iteration."""

from __future__ import annotations

from skyline.trace.facts import MemoryFact
from skyline.trace.record import Allocation


def peak_moment(end: MemoryFact, allocations: tuple[Allocation, ...]) -> tuple[int, int]:
    """The number of the allocation before which the level is highest, and that level in bytes.

    Levels are summed backwards from the live memory at the end, because frees of blocks older than the recording may be
    missing. If no earlier level is higher, it is the end.
    """
    level = highest = end.total_bytes
    moment = len(allocations)
    for index in range(len(allocations) - 1, -1, -1):
        level -= allocations[index].size_bytes
        if level > highest:
            highest, moment = level, index
    return moment, highest
