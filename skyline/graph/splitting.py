"""Primitive: one task becomes several in a row, as when a transfer is cut into slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import indices


def split(graph: Graph, chosen: Iterable[int], shares: Sequence[float]) -> Graph:
    """Each chosen task becomes ``len(shares)`` tasks behind one another, with these shares of its duration.

    What the task waited for the first piece waits for. Whoever waited for its end waits for the last piece, and
    whoever counted from its start counts from the first. The gap, untraced time on a CPU thread or the turnaround
    of a stream, follows the last piece. Dependencies between pieces are added by ``add_dependencies``.

    Shares that sum to 1 keep the time that the work takes; ``merge`` of the pieces gives the task back.

    Raises:
        ValueError: there is no share, or one is negative.
    """
    if not shares or min(shares) < 0:
        raise ValueError("a task is split into one or more shares that are not negative")
    places = np.unique(indices(chosen))
    pieces = np.ones(len(graph), np.int64)
    pieces[places] = len(shares)
    rows = np.repeat(np.arange(len(graph)), pieces)
    first = np.cumsum(pieces) - pieces
    last = first + pieces - 1
    # The pieces of the k-th chosen task are one row of this.
    split_rows = first[places][:, None] + np.arange(len(shares))
    durations, gaps = graph.durations[rows], graph.gaps[rows]
    durations[split_rows] *= np.asarray(shares)
    gaps[split_rows[:, :-1]] = 0.0
    tasks = graph.tasks.taken(rows)
    counts, recording_us = tasks.counts.copy(), tasks.recording_us.copy()
    counts[split_rows[:, 1:]] = 0
    recording_us[split_rows] *= np.asarray(shares)
    edges = graph.structure.dependencies
    source: Indices = np.where(edges.from_start, first[edges.source], last[edges.source])
    return Graph(
        graph.structure.with_parts(
            tasks.changed(counts=counts, recording_us=recording_us),
            edges.between(source, first[edges.target]),
        ),
        durations,
        gaps,
        None if graph.priorities is None else graph.priorities[rows],
    )
