"""Cross-stream waits: a stream goes on when an event that was recorded on another stream has passed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Flags, Ids, Indices, Times
from skyline.graph.dependency import Cause, Dependencies
from skyline.graph.rules.calls import GpuWork
from skyline.graph.rules.constants import Constants
from skyline.graph.rules.names import Names
from skyline.graph.rules.recorded_wait import recorded_waits
from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_ROUNDING_US = 2.0
_PASSING_US = 15.0
"""A waiting stream goes on within this time after the event, as seen on V100, A100 and H100."""


@dataclass(frozen=True, slots=True, eq=False)
class EventWaits:
    """Pairs of places in the GPU's work."""

    awaited: Indices
    waiting: Indices

    def __len__(self) -> int:
        return len(self.awaited)

    def dependencies(self, first_work: int) -> Dependencies:
        """The same, where the GPU's work is numbered from ``first_work`` on."""
        return Dependencies.columns(self.awaited + first_work, self.waiting + first_work, Cause.EVENT)


def event_waits(trace: ProfilerTrace, names: Names, work: GpuWork, constants: Constants) -> EventWaits:
    """From the awaited work to the next work of the stream that waits for it.

    Where the trace names streams and events, that is taken. Most do not, and two things tell. Work that began
    late, though it had been launched and its stream was free, waited for what ended just before on another
    stream, if the host told any stream to wait between the launches of the work before it and its own. And a
    call that makes a stream wait, where nothing was late, means the stream that the thread launches on next, and
    the other stream that was launched on last. A wait that the trace contradicts, because the awaited work ended
    after the waiting work began, is not taken.
    """
    known = np.flatnonzero(work.call >= 0)
    if not len(known) or not work.lane[-1]:
        return NO_WAITS
    named_source, named_target, named = recorded_waits(trace, work)
    calls = np.flatnonzero(
        names.wait_event & ~named & np.isin(trace.category, (Category.RUNTIME, Category.DRIVER))
    )
    asked_us = trace.start_us[calls]
    source, target = _ended_just_before(work, _late(trace, work, asked_us, constants))
    told_source, told_target = _told(trace, work, calls, known)
    fresh = ~np.isin(told_target, target)
    sources = np.concatenate([named_source, source, told_source[fresh]])
    targets = np.concatenate([named_target, target, told_target[fresh]])
    pairs = np.unique(np.stack([sources, targets]), axis=1)
    return EventWaits(pairs[0], pairs[1])


def _late(trace: ProfilerTrace, work: GpuWork, asked_us: Times, constants: Constants) -> Indices:
    """Work that neither its launch nor its stream explains, with a call that makes a stream wait before it."""
    follows = np.append(False, work.lane[1:] == work.lane[:-1])
    called = np.where(work.call >= 0, trace.start_us[work.call], np.inf)
    free = np.where(follows, np.append(-np.inf, work.end_us[:-1]), -np.inf)
    ready = np.maximum(called + constants.launch_latency_us, free + constants.turnaround_us)
    since = np.where(follows, np.append(-np.inf, called[:-1]), -np.inf)
    asked = np.searchsorted(asked_us, since) < np.searchsorted(asked_us, called)
    return np.flatnonzero((work.start_us > ready + _PASSING_US) & asked)


def _ended_just_before(work: GpuWork, late: Indices) -> tuple[Indices, Indices]:
    """Pairs of awaited and late work, those that have one."""
    order = np.argsort(work.end_us, kind="stable")
    ended = work.end_us[order]
    sources: list[int] = []
    targets: list[int] = []
    first = np.searchsorted(ended, work.start_us[late] - _PASSING_US)
    behind = np.searchsorted(ended, work.start_us[late] + _ROUNDING_US, side="right")
    for one, begin, end in zip(late.tolist(), first.tolist(), behind.tolist(), strict=True):
        for other in order[begin:end][::-1].tolist():
            if work.lane[other] != work.lane[one] and work.start_us[other] < work.start_us[one]:
                sources.append(other)
                targets.append(one)
                break
    return np.array(sources, np.int64), np.array(targets, np.int64)


def _told(trace: ProfilerTrace, work: GpuWork, calls: Indices, known: Indices) -> tuple[Indices, Indices]:
    """Pairs of awaited and waiting work that the order of calls suggests and the trace does not contradict."""
    launched = trace.start_us[work.call[known]]
    order = np.argsort(launched, kind="stable")
    known, launched = known[order], launched[order]
    lane, thread = work.lane[known], trace.thread[work.call[known]]
    after = np.searchsorted(launched, trace.start_us[calls])
    target = np.full(len(calls), -1)
    for one in np.unique(trace.thread[calls]).tolist():
        mine = np.flatnonzero(thread == one)
        asking = np.flatnonzero(trace.thread[calls] == one)
        place = np.searchsorted(mine, after[asking])
        has = place < len(mine)
        target[asking[has]] = mine[place[has]]
    usable = (target >= 0) & (after > 0)
    target, after = target[usable], after[usable]
    other = _last_elsewhere(lane)[after - 1]
    # The last launch is either on another stream already, or the last on another stream is looked up.
    awaited = np.where(lane[after - 1] != lane[target], after - 1, other)
    usable = (awaited >= 0) & (lane[np.maximum(awaited, 0)] != lane[target])
    source, target = known[awaited[usable]], known[target[usable]]
    kept = work.end_us[source] <= work.start_us[target] + _ROUNDING_US
    kept &= work.start_us[source] < work.start_us[target]
    return source[kept], target[kept]


def _last_elsewhere(lane: Ids) -> Indices:
    """For each launch the last one before it on another stream than its own; -1 for none."""
    changes: Flags = np.append(False, lane[1:] != lane[:-1])
    return np.maximum.accumulate(np.where(changes, np.arange(len(lane)) - 1, -1))


NO_WAITS = EventWaits(np.empty(0, np.int64), np.empty(0, np.int64))
