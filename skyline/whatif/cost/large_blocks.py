"""The time that the system takes to provide blocks of memory above 32 MiB, and to take them back.

glibc returns such a block as soon as it is free, and requests it again: the system clears its pages each time. The cost
of a byte was measured in the script's own process, the blocks are those of the recorded iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph
from skyline.graph.task import KIND, PHASE, TaskKind
from skyline.memory.growth import LARGE_BYTES
from skyline.trace.profile import Profile
from skyline.whatif.base import Subject
from skyline.whatif.constant import Constant

Share = Callable[[int], float]
"""The part of a block's cost that a change saves, from 0 to 1, by the bytes of the block."""
_MOST_OF_A_TASK = Constant.at(
    0.9, "an assumption: an operator computes, too; the most that getting memory takes"
)


def getting_us(profile: Profile, share: Share) -> dict[int, float]:
    """By row of the recording, the saved cost of the large blocks that were taken meanwhile."""
    trace = profile.trace
    if not trace.iterations or profile.large_block_us_per_mb <= 0:
        return {}
    last = trace.iterations[-1].index
    rows = [row for row, record in enumerate(trace.records) if record.iteration == last]
    rows.sort(key=lambda row: trace.records[row].start_us)
    starts = [trace.records[row].start_us for row in rows]
    found: dict[int, float] = defaultdict(float)
    for one in trace.allocations:
        if one.size_bytes > LARGE_BYTES and rows:
            place = max(0, int(np.searchsorted(starts, one.time_us, side="right")) - 1)
            found[rows[place]] += _cost_us(profile, one.size_bytes) * share(one.size_bytes)
    return dict(found)


def without_getting(subject: Subject, graph: Graph, share: Share) -> Graph:
    """The graph with the saved cost taken from the operators of each iteration that bear it."""
    durations = graph.durations.copy()
    for row, cost_us in getting_us(subject.script, share).items():
        for tasks in _alike(subject, graph, row):
            whole = float(durations[tasks].sum())
            if whole > 0:
                durations[tasks] *= 1 - min(_MOST_OF_A_TASK.value, cost_us / whole)
    return graph.with_times(durations=durations)


def without_returning(subject: Subject, graph: Graph, share: Share) -> Graph:
    """The graph without pauses in which blocks go back to the system, outside of operators.

    A pause is shortened by no more than the cost of getting as much memory.
    """
    profile = subject.script
    tasks, gaps = graph.tasks, graph.gaps.copy()
    on_cpu = tasks.kind == KIND[TaskKind.CPU]
    for one in profile.trace.allocations:
        if -one.size_bytes <= LARGE_BYTES:
            continue
        saved_us = _cost_us(profile, -one.size_bytes) * share(-one.size_bytes)
        there = on_cpu & (tasks.phase == PHASE[one.phase])
        if one.line >= 0:
            there &= tasks.line == one.line
        for iteration in graph.iterations:
            found = np.flatnonzero(there & (tasks.iteration == iteration))
            if len(found) and saved_us > 0:
                longest = found[np.argmax(gaps[found])]
                gaps[longest] -= min(saved_us, share(-one.size_bytes) * gaps[longest])
    return graph.with_times(gaps=gaps)


def _cost_us(profile: Profile, size_bytes: int) -> float:
    return profile.large_block_us_per_mb * size_bytes / 1e6


def _alike(subject: Subject, graph: Graph, row: int) -> list[Indices]:
    """Per iteration the tasks of the same name, phase and line as a row: blocks were recorded in one iteration only."""
    record = subject.script.trace.records[row]
    tasks = graph.tasks
    named: Flags = np.array([name == record.name for name in tasks.names], np.bool_)
    alike = (
        named[tasks.name]
        & (tasks.line == record.line)
        & (tasks.kind == KIND[TaskKind.CPU])
        & (tasks.phase == PHASE[record.phase])
    )
    return [np.flatnonzero(alike & (tasks.iteration == iteration)) for iteration in graph.iterations]
