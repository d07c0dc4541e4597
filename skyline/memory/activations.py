"""Memory per source line that the forward pass keeps for the backward pass."""

from __future__ import annotations

from collections import Counter

from skyline.memory.blocks import live_blocks
from skyline.trace.phase import Phase
from skyline.trace.record import Trace


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
