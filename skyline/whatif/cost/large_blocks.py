"""The time that the system takes to provide blocks of memory, and to take them back.

glibc returns a block above 32 MiB as soon as it is free, and requests it again: the system clears its pages
each time. It returns smaller ones at the end of its heap if enough of them are free together. The cost of a
byte was measured in the script's own process; the blocks come from the recorded iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.task import KIND, PHASE, TaskKind
from skyline.memory.growth import LARGE_BYTES
from skyline.memory.peak import live_blocks
from skyline.trace.profile import Profile
from skyline.trace.record import PASSES, Allocation, Phase, RecordKind
from skyline.whatif.base import Subject
from skyline.whatif.constant import Constant
from skyline.whatif.cost.shrunk_blocks import holds

Share = Callable[[int], float]
"""The share of a block's cost that a change saves, from 0 to 1, as a function of the block's size in bytes."""
MOST_OF_A_TASK = Constant.at(
    0.9, "an assumption: an operator computes, too; the most that getting memory takes"
)
_TRIMMED = Constant.at(
    2.0,
    "glibc, free(): the heap's end goes back to the system from twice the largest block on that was freed so "
    "far, of 32 MiB at most (M_TRIM_THRESHOLD with the dynamic M_MMAP_THRESHOLD)",
)


def no_longer_returned(
    allocations: Sequence[Allocation], numbers: int, parts: Sequence[float]
) -> frozenset[int]:
    """The sizes of gradients that now go back to the system together, and no longer do if one is divided.

    Gradients up to 32 MiB outlive the backward pass, and are freed one after the other. The gradient with
    ``numbers`` numbers is divided into blocks with the shares ``parts`` of its size. Empty if no gradients go
    back now, or if they still do after the division.
    """
    gradients = kept_gradients(allocations)
    own = next((one for one in gradients if holds(one, numbers)), None)
    if own is None:
        return frozenset()
    others = [
        one.size_bytes for one in allocations if one.phase in PASSES and not holds(one.size_bytes, numbers)
    ]
    after = [*gradients, *(part * own for part in parts)]
    after.remove(own)
    stay = go_back(gradients, others) and not go_back(after, others)
    return frozenset(gradients) if stay else frozenset()


def kept_gradients(allocations: Sequence[Allocation]) -> list[int]:
    """The sizes of gradients up to 32 MiB that outlive the backward pass, in bytes."""
    return [
        block.size_bytes
        for block in live_blocks(tuple(allocations))
        if block.phase is Phase.BACKWARD
        and block.size_bytes <= LARGE_BYTES
        and (block.freed is None or allocations[block.freed].phase not in PASSES)
    ]


def go_back(freed: Sequence[float], others: Sequence[float]) -> bool:
    """True if blocks freed one after the other go back to the system; ``others`` are freed at other times."""
    largest = max((one for one in (*freed, *others) if one <= LARGE_BYTES), default=0.0)
    return sum(freed) >= _TRIMMED.value * largest > 0


def getting_us(profile: Profile, share: Share, smaller: Collection[int] = ()) -> dict[int, float]:
    """The saved cost of the large blocks that were allocated during each row of the recording, in µs.

    Blocks of the backward pass with a size in ``smaller`` count, too.
    """
    trace = profile.trace
    if not trace.iterations or profile.large_block_us_per_mb <= 0:
        return {}
    last = trace.iterations[-1].index
    rows = [row for row, record in enumerate(trace.records) if record.iteration == last]
    rows.sort(key=lambda row: trace.records[row].start_us)
    starts = [trace.records[row].start_us for row in rows]
    found: dict[int, float] = defaultdict(float)
    for one in trace.allocations:
        counts = one.size_bytes in smaller and one.phase is Phase.BACKWARD
        if (counts or one.size_bytes > LARGE_BYTES) and rows:
            place = max(0, int(np.searchsorted(starts, one.time_us, side="right")) - 1)
            found[rows[place]] += _cost_us(profile, one.size_bytes) * share(one.size_bytes)
    return dict(found)


def provided_us(profile: Profile, sizes: Iterable[float]) -> float:
    """The cost in µs of new blocks of these sizes in bytes; the allocator keeps small blocks."""
    return sum(_cost_us(profile, one) for one in sizes if one > LARGE_BYTES)


def without_getting(subject: Subject, graph: Graph, share: Share, smaller: Collection[int] = ()) -> Graph:
    """The graph with the saved allocation cost subtracted from the operators that bear it, in each iteration."""
    durations = graph.durations.copy()
    for row, cost_us in getting_us(subject.script, share, smaller).items():
        for tasks in _alike(subject, graph, row):
            whole = float(durations[tasks].sum())
            if whole > 0:
                durations[tasks] *= 1 - min(MOST_OF_A_TASK.value, cost_us / whole)
    return graph.with_times(durations=durations)


def without_returning(subject: Subject, graph: Graph, share: Share, smaller: Collection[int] = ()) -> Graph:
    """The graph without the pauses outside of operators in which blocks go back to the system.

    A pause is shortened by at most the cost of allocating as much memory. A block that is freed at an unknown
    line goes back in the pause after the last operator that ended. Blocks with a size in ``smaller`` count if
    they are freed outside of the passes.
    """
    profile = subject.script
    gaps = graph.gaps.copy()
    for one in profile.trace.allocations:
        counts = -one.size_bytes in smaller and one.phase not in PASSES
        if not counts and -one.size_bytes <= LARGE_BYTES:
            continue
        saved_us = _cost_us(profile, -one.size_bytes) * share(-one.size_bytes)
        for found in _pauses(subject, graph, one):
            if len(found) and saved_us > 0:
                longest = found[np.argmax(gaps[found])]
                gaps[longest] -= min(saved_us, share(-one.size_bytes) * gaps[longest])
    return graph.with_times(gaps=gaps)


def _pauses(subject: Subject, graph: Graph, freed: Allocation) -> list[Indices]:
    """The tasks of each iteration after one of which the block may have been freed."""
    tasks = graph.tasks
    if freed.line < 0:
        known = [found for found in _around(subject, graph, freed) if any(len(one) for one in found)]
        if known:
            return max(
                known, key=lambda found: max(float(graph.gaps[one].max()) for one in found if len(one))
            )
    there = (tasks.kind == KIND[TaskKind.CPU]) & (tasks.phase == PHASE[freed.phase])
    if freed.line >= 0:
        there &= tasks.line == freed.line
    return [np.flatnonzero(there & (tasks.iteration == iteration)) for iteration in graph.iterations]


def _around(subject: Subject, graph: Graph, freed: Allocation) -> Iterator[list[Indices]]:
    """The tasks of the Python code that ran when a block was freed, and of the last operator that ended before."""
    records = subject.script.trace.records
    last = subject.script.trace.iterations[-1].index
    rows = [row for row, one in enumerate(records) if one.iteration == last]
    for row in rows:
        one = records[row]
        ran = one.start_us <= freed.time_us <= one.start_us + one.duration_us
        if one.kind is RecordKind.PYTHON and one.phase is freed.phase and ran:
            yield _alike(subject, graph, row)
    before = [
        row
        for row in rows
        if records[row].kind is RecordKind.OPERATOR
        and records[row].start_us + records[row].duration_us <= freed.time_us
    ]
    for row in sorted(before, key=lambda row: -records[row].start_us):
        found = _alike(subject, graph, row)
        if any(len(one) for one in found):
            yield found
            return


def _cost_us(profile: Profile, size_bytes: float) -> float:
    return profile.large_block_us_per_mb * size_bytes / 1e6


def _alike(subject: Subject, graph: Graph, row: int) -> list[Indices]:
    """The tasks of each iteration with a row's name, phase and line: blocks were recorded in one iteration only."""
    record = subject.script.trace.records[row]
    tasks = graph.tasks
    alike = (
        tasks.named(record.name.__eq__)
        & (tasks.line == record.line)
        & (tasks.kind == KIND[TaskKind.CPU])
        & (tasks.phase == PHASE[record.phase])
    )
    return [np.flatnonzero(alike & (tasks.iteration == iteration)) for iteration in graph.iterations]
