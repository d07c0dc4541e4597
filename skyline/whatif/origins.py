"""The origin of a graph's tasks: bytes and shapes, by the rows of the recording that they come from."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.trace.record import OperatorShape
from skyline.whatif.subject import Subject


def shapes(subject: Subject, graph: Graph, chosen: Indices) -> list[OperatorShape | None]:
    """The call of each chosen task; None where it is not known, as for all tasks of a trace."""
    profile = subject.profile
    if profile is None:
        return [None] * len(chosen)
    trace = profile.trace
    rows: list[int] = graph.tasks.origin[chosen].tolist()
    of_rows = [trace.records[row].shape if row >= 0 else -1 for row in rows]
    return [trace.shapes[shape] if shape >= 0 else None for shape in of_rows]


def flops(subject: Subject, graph: Graph, chosen: Indices) -> Times:
    """Arithmetic of each chosen task, 0 where it is none or not known."""
    return np.array([0.0 if one is None else float(one.flops) for one in shapes(subject, graph, chosen)])


def bytes_moved(subject: Subject, graph: Graph, chosen: Indices) -> Times:
    """Bytes that each chosen task reads and writes at least, 0 where that is not known; of copies those copied."""
    if subject.recording is not None:
        origin = graph.tasks.origin[chosen]
        known = np.where(origin >= 0, subject.recording.trace.size_bytes[np.maximum(origin, 0)], 0)
        return known.astype(np.float64)
    return np.array(
        [0.0 if one is None else float(one.bytes_moved) for one in shapes(subject, graph, chosen)]
    )
