"""Dependencies between tasks on different lanes, and an order of the tasks that satisfies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import field, replace
from enum import Enum
from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

from skyline.compiled import loop
from skyline.graph.column import Codes, Flags, Ids, Indices, RowSequence, Times, frozen
from skyline.lazy_dataclass import dataclass


class CyclicGraph(ValueError):
    """The dependencies contradict the order of the tasks on their lanes."""


def topological_order(before: Ids, source: Ids, target: Ids) -> Ids:
    """Kahn's algorithm with a heap: ties go to the earlier task, so that runs are reproducible.

    If all dependencies point forward, this is the stored order and no sort is needed. Tasks of a cycle, and tasks
    behind it, are omitted.
    """
    if bool((source < target).all()):
        return np.arange(len(before), dtype=np.int32)
    count = len(before)
    follower = np.full(count, -1, np.int32)
    follows = np.flatnonzero(before >= 0)
    follower[before[follows]] = follows
    leaving_offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(source, minlength=count), out=leaving_offsets[1:])
    leaving_target = target[np.argsort(source, kind="stable")]
    waiting = (np.bincount(target, minlength=count) + (before >= 0)).astype(np.int32)
    order = np.empty(count, np.int32)
    reached = _kahn(count + len(source), follower, leaving_offsets, leaving_target, waiting, order)
    return order[:reached]


@loop("iii", writes="ii", allocates=True)
def _kahn(
    follower: Sequence[int],
    leaving_offsets: Sequence[int],
    leaving_target: Sequence[int],
    waiting: MutableSequence[int],
    order: MutableSequence[int],
) -> int:
    """Fill ``order`` and return the number of tasks reached; ``waiting`` counts the open dependencies of each task."""
    ready = [index for index in range(len(follower)) if waiting[index] == 0]
    heapify(ready)
    reached = 0
    while len(ready) > 0:
        index = heappop(ready)
        order[reached] = index
        reached += 1
        target = follower[index]
        if target >= 0:
            waiting[target] -= 1
            if waiting[target] == 0:
                heappush(ready, target + 0)  # + 0: converts to the integer width of the heap
        for place in range(leaving_offsets[index], leaving_offsets[index + 1]):
            target = leaving_target[place]
            waiting[target] -= 1
            if waiting[target] == 0:
                heappush(ready, target + 0)
    return reached


class Cause(str, Enum):
    """The reason why a task waits for a task on another lane. The order on a lane needs no dependency."""

    LAUNCH = "launch"
    """A kernel starts no earlier than its launch call, plus a latency."""
    SYNC = "sync"
    """A synchronising call returns no earlier than the work it waits for."""
    LOADER = "loader"
    """A fetch waits for the worker that makes the batch; a worker waits for space in its queue."""
    HAND_OFF = "hand-off"
    """Another CPU thread started the work of this thread."""
    EVENT = "event"
    """A stream waits for an event that was recorded on another stream."""
    QUEUE = "queue"
    """A launch waits for space in the queue of unfinished launches."""
    COLLECTIVE = "collective"
    """Ranks that exchange data wait for the slowest rank."""
    GIVEN = "given"
    """A dependency that the user of a what-if added."""


CAUSES = tuple(Cause)
"""The cause of each code in the column ``cause``; ``CAUSE`` is the inverse."""
CAUSE: Mapping[Cause, int] = {cause: code for code, cause in enumerate(CAUSES)}


@dataclass(frozen=True, slots=True)
class Dependency:
    """``target`` starts no earlier than ``lag_us`` (µs) after the end, or the start, of ``source``."""

    source: int
    target: int
    cause: Cause
    lag_us: float = 0.0
    from_start: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Dependencies(RowSequence[Dependency]):
    """A sequence of dependencies, stored as read-only columns of equal length."""

    source: Ids
    target: Ids
    cause: Codes
    lag_us: Times
    from_start: Flags
    _rows: tuple[Dependency, ...] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, dependencies: Sequence[Dependency]) -> Dependencies:
        """The columns of individual dependencies."""
        if isinstance(dependencies, Dependencies):
            return dependencies
        return replace(
            cls.columns(
                [one.source for one in dependencies],
                [one.target for one in dependencies],
                [CAUSE[one.cause] for one in dependencies],
                [one.lag_us for one in dependencies],
                [one.from_start for one in dependencies],
            ),
            _rows=tuple(dependencies),
        )

    @classmethod
    def columns(
        cls,
        source: npt.ArrayLike,
        target: npt.ArrayLike,
        cause: Cause | npt.ArrayLike,
        lag_us: npt.ArrayLike = 0.0,
        from_start: npt.ArrayLike = False,
    ) -> Dependencies:
        """Build from columns; a scalar cause, lag or flag applies to all rows."""
        sources, targets = frozen(source, np.int32), frozen(target, np.int32)
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
        code = CAUSE[cause] if isinstance(cause, Cause) else cause
        return cls(
            sources,
            targets,
            frozen(np.broadcast_to(np.asarray(code, np.uint8), sources.shape), np.uint8),
            frozen(np.broadcast_to(np.asarray(lag_us, np.float64), sources.shape), np.float64),
            frozen(np.broadcast_to(np.asarray(from_start, np.bool_), sources.shape), np.bool_),
        )

    def __len__(self) -> int:
        return len(self.source)

    def _made(self, part: slice) -> Iterator[Dependency]:
        return map(
            Dependency,
            self.source[part].tolist(),
            self.target[part].tolist(),
            map(CAUSES.__getitem__, self.cause[part].tolist()),
            self.lag_us[part].tolist(),
            self.from_start[part].tolist(),
        )

    def taken(self, chosen: Indices | Flags | slice) -> Dependencies:
        """A selection of the dependencies, by index or by one flag per row."""
        return Dependencies(
            frozen(self.source[chosen], np.int32),
            frozen(self.target[chosen], np.int32),
            frozen(self.cause[chosen], np.uint8),
            frozen(self.lag_us[chosen], np.float64),
            frozen(self.from_start[chosen], np.bool_),
        )

    def between(self, source: npt.ArrayLike, target: npt.ArrayLike) -> Dependencies:
        """These dependencies with new task numbers, after tasks were renumbered, repeated or merged."""
        return replace(self, source=frozen(source, np.int32), target=frozen(target, np.int32), _rows=None)

    def joined(self, *others: Dependencies | Sequence[Dependency]) -> Dependencies:
        """These dependencies followed by the others."""
        parts = [self, *(Dependencies.of(other) for other in others if len(other))]
        if len(parts) == 1:
            return self
        return Dependencies(
            frozen(np.concatenate([part.source for part in parts]), np.int32),
            frozen(np.concatenate([part.target for part in parts]), np.int32),
            frozen(np.concatenate([part.cause for part in parts]), np.uint8),
            frozen(np.concatenate([part.lag_us for part in parts]), np.float64),
            frozen(np.concatenate([part.from_start for part in parts]), np.bool_),
        )


NO_DEPENDENCIES = Dependencies.columns((), (), Cause.GIVEN)
