"""Primitive: merge consecutive tasks into one: chosen ones, or runs of similar ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Flags, Ids, Indices, indices
from skyline.graph.dependency import Dependencies
from skyline.graph.graph import Graph
from skyline.graph.task import ON_GPU


def merge(graph: Graph, chosen: Iterable[int]) -> Graph:
    """Merge each run of chosen neighbours on a lane into one task, as in kernel fusion.

    The merged task takes the sum of the durations, and its name, line and layer from the first task. Gaps of CPU
    tasks add up. A GPU task takes the gap of the last task, because a stream turns around only between tasks. The
    merged task waits for everything that its parts waited for; tasks that waited for the end of a part wait for its
    end.

    If one part waits, through other tasks, for another part, the result is cyclic; the first access of the order
    raises ``CyclicGraph``.
    """
    wanted = np.zeros(len(graph), np.bool_)
    wanted[indices(chosen)] = True
    members = graph.structure.lane_members
    later, earlier = members[1:], members[:-1]
    joins = (graph.structure.before[later] >= 0) & wanted[later] & wanted[earlier]
    inner = earlier[joins & ON_GPU[graph.tasks.kind[earlier]]]
    if len(inner):
        gaps = graph.gaps.copy()
        gaps[inner] = 0.0
        graph = graph.with_times(gaps=gaps)
    return grouped(graph, joins)


def grouped(graph: Graph, joins: Flags) -> Graph:
    """Join each member of ``Structure.lane_members`` with its predecessor where ``joins`` is true.

    ``joins`` has one flag for each member but the first. A group takes the place of its first task.
    """
    if not joins.any():
        return graph
    members = graph.structure.lane_members
    starts = np.flatnonzero(np.concatenate(([True], ~joins)))
    first = members[starts]
    # Groups were found per lane; they are ordered by their first tasks.
    standing = np.argsort(first, kind="stable")
    place_of_group = np.empty(len(first), np.int64)
    place_of_group[standing] = np.arange(len(first))
    group_of_member = np.cumsum(np.concatenate(([0], ~joins)))
    into = np.empty(len(graph), np.int64)
    into[members] = place_of_group[group_of_member]
    tasks = graph.tasks.taken(first[standing]).changed(
        counts=np.add.reduceat(graph.tasks.counts[members], starts)[standing],
        recording_us=np.add.reduceat(graph.tasks.recording_us[members], starts)[standing],
    )
    return Graph(
        graph.structure.with_parts(tasks, _moved(graph, into, members, starts, group_of_member)),
        np.add.reduceat(graph.durations[members], starts)[standing],
        np.add.reduceat(graph.gaps[members], starts)[standing],
        None if graph.priorities is None else graph.priorities[first[standing]],
    )


def _moved(
    graph: Graph, into: Indices, members: Ids, starts: Indices, group_of_member: Indices
) -> Dependencies:
    """The dependencies between groups, with lags adjusted to count from the original moments.

    A lag from the start of a later member counts from the group's start. The gaps of a group follow all its
    durations, so its end may be earlier than that of a member behind a gap; the lag compensates.
    """
    edges = graph.structure.dependencies
    if not len(edges):
        return edges
    durations = graph.durations[members]
    took = durations + graph.gaps[members]
    passed = np.cumsum(took) - took
    began = passed - passed[starts][group_of_member]
    of_group = np.add.reduceat(durations, starts)[group_of_member]
    after_start, after_end = np.empty(len(graph)), np.empty(len(graph))
    after_start[members] = began
    after_end[members] = np.maximum(0.0, began + durations - of_group)
    later = np.where(edges.from_start, after_start[edges.source], after_end[edges.source])
    moved = Dependencies.columns(
        into[edges.source], into[edges.target], edges.cause, edges.lag_us + later, edges.from_start
    )
    return moved.taken(moved.source != moved.target)


_KEPT_APART = ("kind", "work", "iteration", "phase", "line", "call_line", "module")


def coalesce(graph: Graph, keys: Sequence[npt.NDArray[Any]] | None = None) -> Graph:
    """Merge neighbours on a lane that agree in all ``keys`` and have no dependencies between them.

    A key is an array with one value per task. A merged task takes the sum of the durations, followed by the sum of
    the gaps. The default keys separate tasks that are displayed or changed separately: kind, class of work,
    iteration, phase, line and layer. Lanes with an overridden schedule are not merged.
    """
    structure = graph.structure
    columns = [getattr(graph.tasks, name) for name in _KEPT_APART] if keys is None else keys
    members = structure.lane_members
    later, earlier = members[1:], members[:-1]
    bound_in = np.zeros(len(graph), np.bool_)
    bound_in[structure.dependencies.target] = True
    bound_out = np.zeros(len(graph), np.bool_)
    bound_out[structure.dependencies.source] = True
    joins = (structure.before[later] >= 0) & ~bound_in[later] & ~bound_out[earlier]
    if graph.priorities is not None:
        joins &= np.isnan(graph.priorities[later])
    for column in columns:
        joins &= column[later] == column[earlier]
    return grouped(graph, joins)
