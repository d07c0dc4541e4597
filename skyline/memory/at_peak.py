"""Which lines had taken the memory that was live at the peak."""

from __future__ import annotations

from collections import Counter

from skyline.memory.blocks import live_blocks
from skyline.memory.level import peak_moment
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Allocation


def bytes_at_peak(end: MemoryFact, allocations: tuple[Allocation, ...]) -> dict[int, int]:
    """Bytes live at the peak by the line (an index of ``Trace.lines``, -1: none) that took them.

    Only blocks taken in the recorded iteration have a line; parameters, optimizer state and whatever else is older
    are in none of the rows.
    """
    moment, _ = peak_moment(end, allocations)
    sizes: Counter[int] = Counter()
    for block in live_blocks(allocations):
        if block.alive_at(moment):
            sizes[block.line] += block.size_bytes
    return dict(sizes)
