"""Indexing by masks, whose sizes depend on values: ``torch.compile`` breaks the graph there, or gives it up."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph
from skyline.graph.task import PHASE
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.subject import Subject, shapes

_READ, _WRITE = "aten::index", "aten::index_put_"


def read_by_mask(subject: Subject, graph: Graph) -> Indices:
    """The tasks that pick numbers by a mask: the size of the result depends on values, so that the graph breaks."""
    return _masked(subject, graph, _READ)


def written_by_mask(subject: Subject, graph: Graph, inside: Flags, breaks: Flags) -> Flags:
    """Flags of the tasks in graphs that are not compiled, because they write several numbers by a mask.

    The gradient of these numbers has a size that depends on values. PyTorch finds this when it compiles the
    backward pass ("Backend compiler exception: aten.nonzero"), and runs the whole graph as it was. ``inside``
    flags the passes over the model, ``breaks`` the tasks at which a graph ends. A graph is known up to the
    assignment: what follows may belong to the caller, whose graph is another one if there is any break.
    """
    tasks = graph.tasks
    found = np.zeros(len(graph), np.bool_)
    puts = _masked(subject, graph, _WRITE)
    if not len(puts):
        return found
    forward = np.flatnonzero(inside & (tasks.phase == PHASE[Phase.FORWARD]))
    ordered = forward[np.lexsort((forward, tasks.lane[forward], tasks.iteration[forward]))]
    for put in puts.tolist():
        same = (tasks.lane[ordered] == tasks.lane[put]) & (tasks.iteration[ordered] == tasks.iteration[put])
        own = ordered[same & ~found[ordered]]
        ended = own[breaks[own]]
        before = ended[ended < put]
        first = int(before[-1]) if len(before) else -1
        found[own[(own > first) & ((own <= put) | (len(ended) == 0))]] = True
    # The backward pass of these tasks is recorded with their lines.
    places = np.stack([tasks.iteration, tasks.module, tasks.line], axis=1)
    backward = inside & (tasks.phase == PHASE[Phase.BACKWARD]) & (tasks.line >= 0)
    written = {tuple(place) for place in places[found & (tasks.line >= 0)].tolist()}
    found[backward] = [tuple(place) in written for place in places[backward].tolist()]
    return found


def _masked(subject: Subject, graph: Graph, operator: str) -> Indices:
    """The calls of an indexing operator whose indices are a mask; assignments only if they write several numbers."""
    named = [code for code, name in enumerate(graph.tasks.names) if name == operator]
    chosen = np.flatnonzero(np.isin(graph.tasks.name, named))
    calls = shapes(subject, graph, chosen) if len(chosen) else []
    return chosen[np.array([call is not None and _by_mask(call) for call in calls], np.bool_)]


def _by_mask(call: OperatorShape) -> bool:
    beside = 1 if call.operator == _READ else 2
    return "bool" in call.dtypes[beside:] and (call.operator == _READ or call.inputs[1] != ())
