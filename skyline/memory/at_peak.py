"""Memory that is live at the peak, by the line that allocated it."""

from __future__ import annotations

from collections import Counter

from skyline.memory.blocks import live_blocks
from skyline.memory.level import peak_moment
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Allocation


def bytes_at_peak(end: MemoryFact, allocations: tuple[Allocation, ...]) -> dict[int, int]:
    """Bytes live at the peak by the allocating line (an index of ``Trace.lines``, -1: none).

    Only blocks allocated in the recorded iteration have a line. Parameters, optimizer state and all older blocks are in
    none of the rows.
    """
    moment, _ = peak_moment(end, allocations)
    sizes: Counter[int] = Counter()
    for block in live_blocks(allocations):
        if block.alive_at(moment):
            sizes[block.line] += block.size_bytes
    return dict(sizes)
