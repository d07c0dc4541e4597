"""Cross-stream waits that nobody names, told by the order of calls and by work that began late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Flags, Ids, Indices, Times
from skyline.graph.rules.constants import LaunchConstants

_ROUNDING_US = 2.0
_PASSING_US = 15.0
"""A waiting stream goes on within this time after the event, as seen on V100, A100 and H100."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamWork:
    """What ran on streams, by stream and start, with the calls that launched it."""

    lane: Ids
    """Number of the stream."""
    start_us: Times
    end_us: Times
    called_us: Times
    """When its launch was called; infinite where that was not recorded."""
    caller: Ids
    """Number of the thread that launched it; -1 where that is not known."""


def stream_waits(
    work: StreamWork, asked_us: Times, asked_by: Ids, constants: LaunchConstants
) -> tuple[Indices, Indices]:
    """Pairs of awaited and waiting work. The calls that make a stream wait come in order, with their threads.

    Work that began late, though it had been launched and its stream was free, waited for what ended just before
    on another stream, if the host told any stream to wait between the launches of the work before it and its own.
    And a call that makes a stream wait, where nothing was late, means the stream that the thread launches on next,
    and the other stream that was launched on last. A wait that the times contradict, because the awaited work
    ended after the waiting work began, is not taken.
    """
    known = np.flatnonzero(np.isfinite(work.called_us))
    if not len(known):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    source, target = _ended_just_before(work, _late(work, asked_us, constants))
    told_source, told_target = _told(work, asked_us, asked_by, known)
    fresh = ~np.isin(told_target, target)
    return np.concatenate([source, told_source[fresh]]), np.concatenate([target, told_target[fresh]])


def _late(work: StreamWork, asked_us: Times, constants: LaunchConstants) -> Indices:
    """Work that neither its launch nor its stream explains, with a call that makes a stream wait before it."""
    follows = np.append(False, work.lane[1:] == work.lane[:-1])
    called = work.called_us
    free = np.where(follows, np.append(-np.inf, work.end_us[:-1]), -np.inf)
    ready = np.maximum(called + constants.launch_latency_us, free + constants.turnaround_us)
    since = np.where(follows, np.append(-np.inf, called[:-1]), -np.inf)
    asked = np.searchsorted(asked_us, since) < np.searchsorted(asked_us, called)
    return np.flatnonzero((work.start_us > ready + _PASSING_US) & asked)


def _ended_just_before(work: StreamWork, late: Indices) -> tuple[Indices, Indices]:
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


def _told(work: StreamWork, asked_us: Times, asked_by: Ids, known: Indices) -> tuple[Indices, Indices]:
    """Pairs of awaited and waiting work that the order of calls suggests and the trace does not contradict."""
    launched = work.called_us[known]
    order = np.argsort(launched, kind="stable")
    known, launched = known[order], launched[order]
    lane, thread = work.lane[known], work.caller[known]
    after = np.searchsorted(launched, asked_us)
    target = np.full(len(asked_us), -1)
    for one in np.unique(asked_by).tolist():
        mine = np.flatnonzero(thread == one)
        asking = np.flatnonzero(asked_by == one)
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
