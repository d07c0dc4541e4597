"""Growth of the peak with the batch: memory of the batch grows in proportion, other memory does not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyline.lazy_dataclass import dataclass
from skyline.memory.peak import Block, live_blocks
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Allocation, Phase

LARGE_BYTES = 32 << 20
"""Largest block, in bytes, that glibc's allocator caches (its ``DEFAULT_MMAP_THRESHOLD_MAX`` on 64 bits)."""


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """The recorded memory levels in bytes, one after each allocation, and the part of each that grows with the batch.

    The peak may move with the batch size: for small batches it is often in the optimizer step, for large ones at the
    end of the forward pass. ``unexplained_bytes`` is memory in the run's report beyond the recorded levels.
    """

    live: npt.NDArray[np.float64]
    growing: npt.NDArray[np.float64]
    unexplained_bytes: float
    change: npt.NDArray[np.float64]
    """Bytes of each allocation; negative for a free."""
    growing_change: npt.NDArray[np.float64]
    """Bytes of blocks that grow with the batch; zero for the others."""
    taken_at: npt.NDArray[np.intp]
    """For a free, the index of its allocation; -1 if that precedes the recording, and for allocations."""

    def large_bytes(self, factor: float) -> float:
        """Bytes per iteration in blocks too large for the allocator's cache, at ``factor`` times the batch.

        A large block that is allocated while enough cached memory is free goes there instead. The free memory is
        assumed to be contiguous.
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
    """Growth from the allocations of one iteration, summed backwards from its end; None without allocations."""
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
    """False for allocations of the optimizer step and for gradients from the backward pass."""
    if block.phase is Phase.OPTIMIZER:
        return False
    return block.freed is not None or block.phase in (Phase.DATA, Phase.FORWARD)
