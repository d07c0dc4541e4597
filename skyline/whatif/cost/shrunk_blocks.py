"""The levels of memory without blocks of one size, or with smaller gradients that are freed in the pass."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skyline.graph.column import Times
from skyline.memory.levels import RecordedLevels
from skyline.memory.peak import live_blocks
from skyline.trace.record import PASSES, Allocation, Phase
from skyline.whatif.constant import Constant
from skyline.whatif.subject import Subject

_WIDTHS = (
    Constant.at(4, "the width of a number in float32"),
    Constant.at(2, "the width of a number in 16 bits"),
)
_SIZE_TOLERANCE = Constant.at(0.01, "an assumption: allocators round sizes up by less than this share")


def holds(size_bytes: int, numbers: int) -> bool:
    """True if a block holds ``numbers`` numbers in 32 or 16 bits, and little else."""
    return any(1 <= size_bytes / (numbers * width.value) <= 1 + _SIZE_TOLERANCE.value for width in _WIDTHS)


def without_summands(subject: Subject, levels: RecordedLevels, left: Mapping[int, float]) -> RecordedLevels:
    """The levels with smaller gradients that a backward pass frees again, after it has added them to earlier ones.

    ``left`` is the remaining share by number of elements. Gradients as large as a block of the forward pass are left
    as they are: they may belong to an activation.
    """
    blocks = live_blocks(subject.script.trace.allocations)
    shown = {one.size_bytes for one in blocks if one.phase is Phase.FORWARD}
    change = np.zeros(len(levels.live))
    for one in blocks:
        if one.phase is not Phase.BACKWARD or one.freed is None or one.size_bytes in shown:
            continue
        share = next((part for numbers, part in left.items() if holds(one.size_bytes, numbers)), 1.0)
        change[one.taken] -= (1 - share) * one.size_bytes
        change[one.freed] += (1 - share) * one.size_bytes
    level = np.cumsum(change)
    return levels.without_activations(-level)


def without_blocks(subject: Subject, levels: RecordedLevels, numbers: int, gone: float) -> RecordedLevels:
    """The levels without the share ``gone`` of recorded blocks of both passes that hold ``numbers`` numbers."""
    allocations = subject.script.trace.allocations
    if len(allocations) != len(levels.live):
        return levels
    return levels.without_activations(gone * _level_of(allocations, numbers))


def _level_of(allocations: tuple[Allocation, ...], numbers: int) -> Times:
    """The bytes in blocks of ``numbers`` numbers, after each allocation.

    Blocks from before the recording are included: a script may hold the result of an iteration until the next
    one.
    """
    blocks = live_blocks(allocations)
    change = np.zeros(len(allocations) + 1)
    for block in blocks:
        if block.phase in PASSES and holds(block.size_bytes, numbers):
            change[block.taken] += block.size_bytes
            change[len(allocations) if block.freed is None else block.freed] -= block.size_bytes
    known = {block.freed for block in blocks}
    for index, one in enumerate(allocations):
        if index not in known and holds(-one.size_bytes, numbers):
            change[0] -= one.size_bytes
            change[index] += one.size_bytes
    return np.cumsum(change)[:-1]
