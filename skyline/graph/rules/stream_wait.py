"""Unnamed cross-stream waits, inferred from the order of calls and from work that began late."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Ids, Indices, Times
from skyline.graph.rules.constants import LaunchConstants
from skyline.lazy_dataclass import dataclass

_ROUNDING_US = 2.0
_PASSING_US = 15.0
"""Time, in µs, after an event within which a waiting stream resumes; measured on V100, A100 and H100."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamWork:
    """Work on streams, sorted by stream and start, with the calls that launched it."""

    lane: Ids
    """Number of the stream."""
    start_us: Times
    end_us: Times
    called_us: Times
    """Time of the launch call, in µs; infinite if not recorded."""
    caller: Ids
    """Number of the launching thread; -1 if unknown."""


def stream_waits(
    work: StreamWork, asked_us: Times, asked_by: Ids, constants: LaunchConstants
) -> tuple[Indices, Indices]:
    """Pairs of awaited and waiting work. The calls that make a stream wait are in order, with their threads.

    Late work had been launched and its stream was free, but it did not start. It waited for the work that ended just
    before on another stream, provided that the host made a stream wait between the launch of the preceding work and
    its own. If no work was late, the wait is for the stream on which the thread launches next; the awaited stream is
    the other one with the latest launch. A pair is dropped if the awaited work ended after the waiting work began.
    """
    known = np.flatnonzero(np.isfinite(work.called_us))
    if not len(known):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    source, target = _ended_just_before(work, _late(work, asked_us, constants))
    told_source, told_target = _told(work, asked_us, asked_by, known)
    fresh = ~np.isin(told_target, target)
    return np.concatenate([source, told_source[fresh]]), np.concatenate([target, told_target[fresh]])


def _late(work: StreamWork, asked_us: Times, constants: LaunchConstants) -> Indices:
    """Work whose late start neither its launch nor its stream explains, preceded by a wait call for a stream."""
    follows = np.append(False, work.lane[1:] == work.lane[:-1])
    called = work.called_us
    free = np.where(follows, np.append(-np.inf, work.end_us[:-1]), -np.inf)
    ready = np.maximum(called + constants.launch_latency_us, free + constants.turnaround_us)
    since = np.where(follows, np.append(-np.inf, called[:-1]), -np.inf)
    asked = np.searchsorted(asked_us, since) < np.searchsorted(asked_us, called)
    return np.flatnonzero((work.start_us > ready + _PASSING_US) & asked)


def _ended_just_before(work: StreamWork, late: Indices) -> tuple[Indices, Indices]:
    """Pairs of awaited and late work, for late work that has such a pair."""
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
    """Pairs of awaited and waiting work that the call order suggests and the trace does not contradict."""
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
    # The last launch is on another stream, or the last launch on another stream is looked up.
    awaited = np.where(lane[after - 1] != lane[target], after - 1, other)
    usable = (awaited >= 0) & (lane[np.maximum(awaited, 0)] != lane[target])
    source, target = known[awaited[usable]], known[target[usable]]
    kept = work.end_us[source] <= work.start_us[target] + _ROUNDING_US
    kept &= work.start_us[source] < work.start_us[target]
    return source[kept], target[kept]


def _last_elsewhere(lane: Ids) -> Indices:
    """For each launch the previous launch on a different stream; -1 for none."""
    changes: Flags = np.append(False, lane[1:] != lane[:-1])
    return np.maximum.accumulate(np.where(changes, np.arange(len(lane)) - 1, -1))
