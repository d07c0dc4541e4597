"""What waits for each task, for engines that go forward in time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyline.graph.column import Flags, Ids, Times
from skyline.graph.structure import Structure


class Leaving(NamedTuple):
    """Those that wait for task ``i`` stand at ``offsets[i]`` to ``offsets[i + 1]``.

    ``waiting`` counts for each task how many it waits for itself.
    """

    offsets: Ids
    target: Ids
    lag: Times
    from_start: Flags
    waiting: Ids


def leaving(structure: Structure, keeps_order: Flags) -> Leaving:
    """The dependencies by what is waited for. ``keeps_order``, per lane: its tasks start in the order they stand in.

    That order is then a dependency on the start of the task before: the lane itself may have room for both.
    """
    dependencies, before = structure.dependencies, structure.before
    count = len(structure)
    follows = (
        np.flatnonzero((before >= 0) & keeps_order[structure.lane_of]) if count else np.empty(0, np.intp)
    )
    source = np.concatenate((dependencies.source, before[follows]))
    target = np.concatenate((dependencies.target, follows.astype(np.int32)))
    lag = np.concatenate((dependencies.lag_us, np.zeros(len(follows))))
    from_start = np.concatenate((dependencies.from_start, np.ones(len(follows), np.bool_)))
    places = np.argsort(source, kind="stable")
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(source, minlength=count), out=offsets[1:])
    waiting = np.bincount(target, minlength=count).astype(np.int32)
    return Leaving(offsets, target[places], lag[places], from_start[places], waiting)
