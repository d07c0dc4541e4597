"""Growth of the peak with the batch: memory of the batch grows in proportion, other memory does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skyline.memory.blocks import Block, live_blocks
from skyline.trace.facts import MemoryFact
from skyline.trace.phase import Phase
from skyline.trace.record import Allocation

LARGE_BYTES = 32 << 20
"""Blocks of more are never kept by glibc's allocator (its ``DEFAULT_MMAP_THRESHOLD_MAX`` on 64 bits)."""


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """The recorded levels of memory in bytes, one behind each allocation, and what of each goes along with the batch.

    Where the peak is, may change with the batch: with small ones it is often in the optimizer's step, with large ones
    at the end of the forward pass. ``unexplained_bytes`` is what the run reported beyond the recorded levels.
    """

    live: npt.NDArray[np.float64]
    growing: npt.NDArray[np.float64]
    unexplained_bytes: float
    change: npt.NDArray[np.float64]
    """Bytes that each allocation takes, or frees (below zero)."""
    growing_change: npt.NDArray[np.float64]
    """Bytes of blocks that grow with the batch, zero for the others."""
    taken_at: npt.NDArray[np.intp]
    """For an allocation that gives back, the one that took; -1 where that was before the recording, or it takes."""

    def large_bytes(self, factor: float) -> float:
        """Bytes of an iteration in blocks that the allocator does not keep, at ``factor`` times the batch.

        A large block that is taken while enough of the kept memory lies free is put there instead; whether that lies
        in one piece is not known, and taken for granted.
        """
        change = self.change + (factor - 1.0) * self.growing_change
        large = np.abs(change) > LARGE_BYTES
        if not large.any():
            return 0.0
        kept = np.cumsum(np.where(large, 0.0, change))
        most = max(0.0, float(kept.max()))
        inside: dict[int, float] = {}
        fresh = 0.0
        for index in np.flatnonzero(large).tolist():
            size = float(change[index])
            if size < 0:
                inside.pop(int(self.taken_at[index]), None)
            elif most - float(kept[index]) - sum(inside.values()) >= size:
                inside[index] = size
            else:
                fresh += size
        return fresh

    def peak_bytes(self, factor: float) -> float:
        """The peak at ``factor`` times the recorded batch."""
        return float((self.live + (factor - 1.0) * self.growing).max()) + self.unexplained_bytes


def growth(end: MemoryFact, allocations: tuple[Allocation, ...], peak_bytes: int) -> Growth | None:
    """From the allocations of one iteration, counted backwards from what is alive at its end; None without them."""
    if not allocations:
        return None
    change = np.array([one.size_bytes for one in allocations], np.float64)
    live = end.total_bytes - change.sum() + np.cumsum(change)
    growing = np.zeros(len(change))
    taken_at = np.full(len(change), -1, np.intp)
    for block in live_blocks(allocations):
        if block.freed is not None:
            taken_at[block.freed] = block.taken
        if _goes_along(block):
            growing[block.taken] += block.size_bytes
            if block.freed is not None:
                growing[block.freed] -= block.size_bytes
    return Growth(
        live,
        np.cumsum(growing),
        max(0.0, peak_bytes - float(live.max())),
        change,
        growing,
        taken_at,
    )


def _goes_along(block: Block) -> bool:
    """What an optimizer's step takes does not, nor the gradients that backward work leaves behind."""
    if block.phase is Phase.OPTIMIZER:
        return False
    return block.freed is not None or block.phase in (Phase.DATA, Phase.FORWARD)
