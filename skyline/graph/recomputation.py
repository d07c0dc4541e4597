"""Primitive: repeat forward work directly before the backward work that needs its results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.dependency import CAUSE, NO_DEPENDENCIES, Cause, Dependencies
from skyline.graph.graph import Graph, arranged, extended
from skyline.graph.launching import launches
from skyline.graph.task import ON_GPU, PHASE
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase


@dataclass(frozen=True, slots=True, eq=False)
class Recomputed:
    """Host work to repeat, in order, before the host task ``before``; its kernels are repeated too.

    ``overhead_us`` is the Python time of the recomputation itself.
    """

    rows: Indices
    before: int
    overhead_us: float = 0.0


def recompute(graph: Graph, parts: Sequence[Recomputed]) -> Graph:
    """Repeat each part on the thread of the task that it precedes, its kernels before kernels launched later.

    The copies count as backward work, keep their recorded durations and depend on each other like the originals.
    They have no other dependencies, since their inputs are available. On a thread that received ``before`` by a
    hand-off, the copies receive the hand-off instead.
    """
    if not parts:
        return graph
    count = len(graph)
    launched = launches(graph)
    works = [_with_kernels(part.rows, launched) for part in parts]
    copies = np.concatenate(works)
    lanes, slots = _places(graph, parts, works, launched)
    gaps = graph.gaps[copies].copy()
    starts = np.cumsum([0, *(len(work) for work in works)])
    for part, start in zip(parts, starts, strict=False):
        gaps[start] += part.overhead_us
    tasks = graph.tasks.taken(copies)
    tasks = tasks.changed(
        phase=np.full(len(copies), PHASE[Phase.BACKWARD]), lanes=graph.tasks.lanes, lane=lanes
    )
    grown = extended(
        graph, tasks, graph.durations[copies], gaps, _dependencies(graph, parts, works, starts + count)
    )
    return arranged(grown, np.insert(np.arange(count), slots, count + np.arange(len(copies))))


def _with_kernels(rows: Indices, launched: Dependencies) -> Indices:
    """The rows and the GPU work that they launch, in graph order."""
    return np.union1d(rows, launched.target[np.isin(launched.source, rows)]).astype(np.int64)


def _places(
    graph: Graph, parts: Sequence[Recomputed], works: Sequence[Indices], launched: Dependencies
) -> tuple[Indices, Indices]:
    """For each copy its lane, and the graph task before which it is placed."""
    lanes: list[Indices] = []
    slots: list[Indices] = []
    for part, work in zip(parts, works, strict=True):
        on_gpu = ON_GPU[graph.tasks.kind[work]]
        own = graph.tasks.lane[work].astype(np.int64)
        later = launched.target[launched.source >= part.before]
        # On a stream without later work the copies go to its end.
        first = np.full(len(graph.tasks.lanes), len(graph), np.int64)
        np.minimum.at(first, graph.tasks.lane[later], later)
        lanes.append(np.where(on_gpu, own, int(graph.tasks.lane[part.before])))
        slots.append(np.where(on_gpu, first[own], part.before))
    return np.concatenate(lanes), np.concatenate(slots)


def _dependencies(
    graph: Graph, parts: Sequence[Recomputed], works: Sequence[Indices], starts: Indices
) -> Dependencies:
    edges = graph.structure.dependencies
    made = [edges]
    place = np.full(len(graph), -1, np.int64)
    handed = edges.taken(edges.cause == CAUSE[Cause.HAND_OFF])
    for part, work, start in zip(parts, works, starts, strict=False):
        place[work] = start + np.arange(len(work))
        inner = edges.taken((place[edges.source] >= 0) & (place[edges.target] >= 0))
        made.append(inner.between(place[inner.source], place[inner.target]))
        to_first = handed.taken(handed.target == part.before)
        made.append(to_first.between(to_first.source, np.full(len(to_first), start)))
        place[work] = -1
    return made[0].joined(*(one for one in made[1:] if len(one))) if len(made) > 1 else NO_DEPENDENCIES
