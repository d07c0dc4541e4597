"""Independent parts of a model: a compiler computes their pointwise work in one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.task import PHASE
from skyline.trace.record import OperatorShape, Phase
from skyline.whatif.catalogue.host.operator_class import CostClass
from skyline.whatif.subject import Subject, shapes

_SHRINK = ("pool", "mean", "sum", "amax", "amin", "var", "loss")
"""Parts of the names of operators whose result has fewer numbers than their input."""


def joined(
    subject: Subject, graph: Graph, host: Indices, kinds: Indices, members: Indices, stretch: Indices
) -> Indices:
    """The stretch numbers of pointwise operators, with independent stretches merged into one number.

    ``members`` are the pointwise operators of a CPU in order, ``stretch`` the number of each: products
    separate stretches. A product that directly follows a stretch and has no input as large as the stretch's
    result does not depend on it, so the stretch can be fused with the next one. The gates of a recurrent cell
    are such parts. In the backward pass, the same parts are neighbours in the opposite order. If shapes are
    not known, nothing is merged.
    """
    firsts = np.flatnonzero(np.diff(stretch, prepend=stretch[:1] - 1))
    lasts = np.append(firsts[1:], len(stretch)) - 1
    order = np.sort(host)
    real = order[graph.durations[order] > 0]
    ends, begins = members[lasts[:-1]], members[firsts[1:]]
    after, until = np.searchsorted(real, ends) + 1, np.searchsorted(real, begins)
    tasks, module = graph.tasks, graph.tasks.module
    known = dict(zip(ends.tolist(), shapes(subject, graph, ends), strict=True))
    followers = real[np.minimum(after, len(real) - 1)]
    takes = dict(zip(followers.tolist(), shapes(subject, graph, followers), strict=True))
    pairs: set[tuple[int, int]] = set()
    number = np.arange(len(firsts))
    for place, (end, begin) in enumerate(zip(ends.tolist(), begins.tolist(), strict=True)):
        between = real[after[place] : until[place]]
        same = all(column[end] == column[begin] for column in (tasks.lane, tasks.iteration, tasks.phase))
        if not same or not len(between) or not (kinds[between] == CostClass.HEAVY).all():
            continue
        product = int(between[0])
        if tasks.phase[end] == PHASE[Phase.FORWARD]:
            name = tasks.names[int(tasks.name[end])]
            if not _independent(name, known[end], takes.get(product)):
                continue
            pairs.add((int(module[end]), int(module[product])))
        elif (int(module[begin]), int(module[product])) not in pairs or module[begin] == module[product]:
            continue
        number[place + 1] = number[place]
    return np.repeat(number, lasts - firsts + 1)


def _independent(name: str, left: OperatorShape | None, product: OperatorShape | None) -> bool:
    """True if no input of a product has as many numbers as the result of an elementwise operator before it."""
    if left is None or product is None or not left.inputs or not product.inputs:
        return False
    if any(mark in name for mark in _SHRINK):
        return False
    return prod(_broadcast(left.inputs)) not in {prod(one) for one in product.inputs}


def _broadcast(sizes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The size of the result of an elementwise operator."""
    rank = max(map(len, sizes))
    padded = [(1,) * (rank - len(one)) + one for one in sizes]
    return tuple(max(column) for column in zip(*padded, strict=True))
