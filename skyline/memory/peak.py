"""The peak of live tensor memory in one iteration, and its composition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from skyline.memory.blocks import Block, live_blocks
from skyline.trace.facts import MemoryFact
from skyline.trace.phase import Phase
from skyline.trace.profile import Profile
from skyline.trace.record import Allocation


@dataclass(frozen=True, slots=True)
class MemoryBreakdown:
    """The bytes at the peak by owner; the parts sum to the peak.

    ``activations`` are live blocks that the forward and backward pass allocated in this iteration, except new gradients
    of parameters.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    other: int

    @property
    def total(self) -> int:
        """The peak, in bytes."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.other


def peak_breakdown(profile: Profile) -> MemoryBreakdown:
    """The owners at the peak, from a replay of the recorded allocations.

    The run reports the peak itself. Bytes that the replay does not explain are ``other``. If the replay exceeds the
    reported peak, the surplus is subtracted from the activations first.
    """
    replayed = replay(profile.memory, profile.trace.allocations)
    peak = profile.peak_bytes or replayed.total
    surplus = replayed.total - peak
    if surplus <= 0:
        return MemoryBreakdown(
            replayed.parameters,
            replayed.gradients,
            replayed.optimizer,
            replayed.activations,
            replayed.other - surplus,
        )
    parts = [
        replayed.activations,
        replayed.other,
        replayed.gradients,
        replayed.optimizer,
        replayed.parameters,
    ]
    for index, size in enumerate(parts):
        taken = min(size, surplus)
        parts[index] -= taken
        surplus -= taken
    activations, other, gradients, optimizer, parameters = parts
    return MemoryBreakdown(parameters, gradients, optimizer, activations, other)


def replay(end: MemoryFact, allocations: tuple[Allocation, ...]) -> MemoryBreakdown:
    """The owners at the highest level of the allocations, which end at ``end``.

    Levels are summed backwards from the live memory at the end, because frees of blocks older than the recording may be
    missing.
    """
    moment, highest = peak_moment(end, allocations)
    blocks = live_blocks(allocations)
    # A block from the backward pass that outlives the iteration is the gradient of a parameter.
    kept = [block for block in blocks if block.freed is None and block.phase is Phase.BACKWARD]
    new_gradients = min(end.gradient_bytes, sum(block.size_bytes for block in kept))
    later = sum(block.size_bytes for block in kept if block.taken >= moment)
    old_gradients = min(new_gradients, _freed_from_before(allocations, moment, blocks))
    gradients = max(0, end.gradient_bytes - min(later, new_gradients) + old_gradients)
    activations = sum(
        block.size_bytes
        for block in blocks
        if block.phase in (Phase.FORWARD, Phase.BACKWARD)
        and block.alive_at(moment)
        and (block.freed is not None or block.phase is not Phase.BACKWARD)
    )
    rest = highest - end.parameter_bytes - end.optimizer_bytes
    gradients = min(gradients, max(0, rest))
    activations = min(activations, max(0, rest - gradients))
    other = rest - gradients - activations
    parameters = end.parameter_bytes + min(0, other)
    return MemoryBreakdown(parameters, gradients, end.optimizer_bytes, activations, max(0, other))


def _freed_from_before(allocations: tuple[Allocation, ...], moment: int, blocks: tuple[Block, ...]) -> int:
    """Bytes freed from ``moment`` on that are older than the recording: gradients of the previous iteration."""
    matched = {block.freed for block in blocks}
    return sum(
        -allocation.size_bytes
        for index, allocation in enumerate(allocations)
        if index >= moment and allocation.size_bytes < 0 and index not in matched
    )


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
