"""The time that the system takes to provide blocks of memory, and to take them back.

glibc returns a block above 32 MiB as soon as it is free, and requests it again: the system clears its pages each time.
It returns smaller ones at the end of its heap where enough of them are free together. The cost of a byte was
measured in the script's own process, the blocks are those of the recorded iteration.
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
"""The part of a block's cost that a change saves, from 0 to 1, by the bytes of the block."""
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
    """Sizes of gradients that go back to the system together now, and stay once one of them is divided.

    Gradients up to 32 MiB outlive the backward pass, and are freed one after the other. The one that holds so many
    ``numbers`` becomes blocks of these ``parts`` of it. Empty if none goes back, or if they still do.
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
    """Sizes of gradients up to 32 MiB that outlive the backward pass."""
    return [
        block.size_bytes
        for block in live_blocks(tuple(allocations))
        if block.phase is Phase.BACKWARD
        and block.size_bytes <= LARGE_BYTES
        and (block.freed is None or allocations[block.freed].phase not in PASSES)
    ]


def go_back(freed: Sequence[float], others: Sequence[float]) -> bool:
    """True if these blocks, freed one after the other, go back to the system; ``others`` are freed at other times."""
    largest = max((one for one in (*freed, *others) if one <= LARGE_BYTES), default=0.0)
    return sum(freed) >= _TRIMMED.value * largest > 0


def getting_us(profile: Profile, share: Share, smaller: Collection[int] = ()) -> dict[int, float]:
    """By row of the recording, the saved cost of the large blocks that were taken meanwhile.

    Blocks of the backward pass of a size in ``smaller`` count, too.
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
    """Cost of new blocks of these sizes in bytes; the allocator keeps the small ones."""
    return sum(_cost_us(profile, one) for one in sizes if one > LARGE_BYTES)


def without_getting(subject: Subject, graph: Graph, share: Share, smaller: Collection[int] = ()) -> Graph:
    """The graph with the saved cost taken from the operators of each iteration that bear it."""
    durations = graph.durations.copy()
    for row, cost_us in getting_us(subject.script, share, smaller).items():
        for tasks in _alike(subject, graph, row):
            whole = float(durations[tasks].sum())
            if whole > 0:
                durations[tasks] *= 1 - min(MOST_OF_A_TASK.value, cost_us / whole)
    return graph.with_times(durations=durations)


def without_returning(subject: Subject, graph: Graph, share: Share, smaller: Collection[int] = ()) -> Graph:
    """The graph without pauses in which blocks go back to the system, outside of operators.

    A pause is shortened by no more than the cost of getting as much memory. A block that is freed at no known line goes
    back in the pause after the operator that ended before. Blocks of a size in ``smaller`` count if they are freed
    outside of the passes.
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
    """Per iteration the tasks in one of whose pauses the block may have been freed."""
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
    """The tasks of the operator that ended last before a block was freed, and those of the Python code that ran."""
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
    """Per iteration the tasks of the same name, phase and line as a row: blocks were recorded in one iteration only."""
    record = subject.script.trace.records[row]
    tasks = graph.tasks
    alike = (
        tasks.named(record.name.__eq__)
        & (tasks.line == record.line)
        & (tasks.kind == KIND[TaskKind.CPU])
        & (tasks.phase == PHASE[record.phase])
    )
    return [np.flatnonzero(alike & (tasks.iteration == iteration)) for iteration in graph.iterations]
