"""Matching of every recorded allocation with its free."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.trace.phase import Phase
from skyline.trace.record import Allocation


@dataclass(frozen=True, slots=True)
class Block:
    """Memory allocated by allocation number ``taken`` and freed by number ``freed`` (None: not in the recording)."""

    size_bytes: int
    taken: int
    freed: int | None
    time_us: float
    phase: Phase
    line: int

    def alive_at(self, moment: int) -> bool:
        """True if the block is live just before allocation number ``moment``."""
        return self.taken < moment and (self.freed is None or self.freed >= moment)


def live_blocks(allocations: tuple[Allocation, ...]) -> tuple[Block, ...]:
    """The blocks allocated during the recording, in order of allocation."""
    held: dict[int, int] = {}
    freed: dict[int, int] = {}
    for index, allocation in enumerate(allocations):
        if allocation.size_bytes >= 0:
            held[allocation.address] = index
        elif allocation.address in held:
            freed[held.pop(allocation.address)] = index
    return tuple(
        Block(
            allocation.size_bytes,
            index,
            freed.get(index),
            allocation.time_us,
            allocation.phase,
            allocation.line,
        )
        for index, allocation in enumerate(allocations)
        if allocation.size_bytes > 0
    )
