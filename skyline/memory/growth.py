"""How the peak grows with the batch: what was taken for it grows in proportion, what stays does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skyline.memory.blocks import Block, live_blocks
from skyline.trace.facts import MemoryFact
from skyline.trace.phase import Phase
from skyline.trace.record import Allocation


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """The recorded levels of memory in bytes, one behind each allocation, and what of each goes along with the batch.

    Where the peak is, may change with the batch: with small ones it is often in the optimizer's step, with large ones
    at the end of the forward pass. ``unexplained_bytes`` is what the run reported beyond the recorded levels.
    """

    live: npt.NDArray[np.float64]
    growing: npt.NDArray[np.float64]
    unexplained_bytes: float

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
    for block in live_blocks(allocations):
        if _goes_along(block):
            growing[block.taken] += block.size_bytes
            if block.freed is not None:
                growing[block.freed] -= block.size_bytes
    return Growth(live, np.cumsum(growing), max(0.0, peak_bytes - float(live.max())))


def _goes_along(block: Block) -> bool:
    """What an optimizer's step takes does not, nor the gradients that backward work leaves behind."""
    if block.phase is Phase.OPTIMIZER:
        return False
    return block.freed is not None or block.phase in (Phase.DATA, Phase.FORWARD)
