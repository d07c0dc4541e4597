"""The peak of live tensor memory in one iteration: its owners, its lines, and whether it fits into the device."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import DeviceMemoryFact, MemoryFact
from skyline.trace.profile import Profile
from skyline.trace.record import Allocation, Phase, Trace


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


def activation_bytes(trace: Trace) -> dict[int, int]:
    """Bytes per line (an index of ``trace.lines``) that the forward pass keeps until the backward pass starts.

    With several micro-batches per iteration, it is the maximum over them, per line. Only iterations with recorded
    allocations count.
    """
    backward = sorted(record.start_us for record in trace.records if record.phase is Phase.BACKWARD)
    blocks = [block for block in live_blocks(trace.allocations) if block.phase is Phase.FORWARD]
    times = [allocation.time_us for allocation in trace.allocations]
    kept: dict[int, Counter[int]] = {}
    position = 0
    for block in blocks:
        while position < len(backward) and backward[position] < block.time_us:
            position += 1
        if position == len(backward):
            break
        if block.freed is None or times[block.freed] >= backward[position]:
            kept.setdefault(position, Counter())[block.line] += block.size_bytes
    largest: dict[int, int] = {}
    for counter in kept.values():
        for line, size in counter.items():
            largest[line] = max(largest.get(line, 0), size)
    return largest


def batch_tensors(trace: Trace) -> tuple[int, ...]:
    """Bytes of each tensor of the batch after data loading: allocated in that phase and live at its end.

    The iteration with the most such memory counts.
    """
    blocks = [block for block in live_blocks(trace.allocations) if block.phase is Phase.DATA]
    times = [allocation.time_us for allocation in trace.allocations]
    fetching = [record for record in trace.records if record.phase is Phase.DATA]
    most: tuple[int, ...] = ()
    for mark in trace.iterations:
        ends = [record.end_us for record in fetching if mark.start_us <= record.start_us < mark.end_us]
        if not ends:
            continue
        over = max(ends)
        held = tuple(
            block.size_bytes
            for block in blocks
            if mark.start_us <= block.time_us <= over and (block.freed is None or times[block.freed] > over)
        )
        most = max(most, held, key=sum)
    return most


ASSUMED_CONTEXT_BYTES = 600_000_000
"""Size of a CUDA context with PyTorch's kernels and libraries, for a GPU that cannot be queried.

An assumption: less than the 781 MB of pytorch/pytorch issue 34323, which predates lazy loading of kernels in CUDA.
"""
ASSUMED_FRAGMENTS = 0.05
"""Assumed share of the remaining memory that PyTorch's allocator loses to fragmentation on such a GPU."""


def usable_bytes(profile: Profile) -> int | None:
    """The device's capacity minus memory of other programs and memory of this process outside its tensors, in bytes.

    None if the capacity is unknown. The whole capacity if the device did not report its other memory. For a predicted
    GPU, the capacity minus the two constants above.
    """
    if profile.device_memory is not None:
        return usable_on_device(profile.device_memory)
    if profile.prediction is not None:
        return usable_elsewhere(profile.environment.memory_capacity_bytes)
    return profile.environment.memory_capacity_bytes or None


def usable_elsewhere(capacity_bytes: int) -> int:
    """Usable bytes of a GPU that is absent and cannot be queried: the capacity minus the two constants above."""
    return max(0, round((capacity_bytes - ASSUMED_CONTEXT_BYTES) * (1.0 - ASSUMED_FRAGMENTS)))


def usable_on_device(memory: DeviceMemoryFact) -> int:
    """The device's memory minus the context, other processes and the allocator's fragmentation, in bytes.

    The fragmentation is assumed to be the same share at other sizes as in the run.
    """
    free = max(0, memory.total_bytes - memory.context_bytes - memory.other_process_bytes)
    return round(free * (1.0 - fragmentation(memory)))


def fragmentation(memory: DeviceMemoryFact) -> float:
    """The share of the allocator's reserved memory that no tensor used even at the peak."""
    if memory.reserved_bytes <= 0:
        return 0.0
    return max(0.0, 1.0 - memory.allocated_peak_bytes / memory.reserved_bytes)


class Fit(str, Enum):
    """The verdict on a peak and a capacity."""

    FITS = "fits"
    UNSURE = "unsure"
    TOO_LARGE = "too large"


def fit(peak_bytes: Interval, usable_bytes: int | None) -> Fit:
    """The fit of an uncertain peak into the memory available to tensors; if that is unknown, nothing is too large."""
    if not usable_bytes:
        return Fit.FITS
    if peak_bytes.low > usable_bytes:
        return Fit.TOO_LARGE
    return Fit.UNSURE if peak_bytes.high > usable_bytes else Fit.FITS
