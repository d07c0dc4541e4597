"""Finds the measured times of single products (``ProductTrial``) for the tasks of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.task import work_class
from skyline.graph.tasks import PHASE
from skyline.trace.phase import Phase
from skyline.trace.product_trial import ProductTrial, TriedTimes
from skyline.trace.record import OperatorShape
from skyline.whatif.subject import Subject, shapes

_PASSES_BACK = 2.0
"""Arithmetic of a backward pass over that of the forward one: gradients of the input and of the weight."""
_UNLIKE = 4.0
"""Backward work whose arithmetic differs by more than this factor from every tried product has other sizes."""

Tried = tuple[ProductTrial, TriedTimes]


def tried_products(subject: Subject, graph: Graph, chosen: Indices) -> list[Tried | None]:
    """For each chosen task its product and the times of its pass; None where no such product was tried.

    A forward task is matched by its operator and sizes. A backward task shows the size of its incoming gradient: it
    belongs to the product with a result of that size and the nearest arithmetic.
    """
    trials = () if subject.profile is None else subject.profile.product_trials
    if not trials:
        return [None] * len(chosen)
    forward = {(trial.operator, trial.inputs): (trial, trial.forward) for trial in trials}
    # The tasks share few shapes, and each is looked up once.
    known: dict[tuple[int, bool], Tried | None] = {}
    back: list[bool] = (graph.tasks.phase[chosen] == PHASE[Phase.BACKWARD]).tolist()
    found: list[Tried | None] = []
    for shape, is_back in zip(shapes(subject, graph, chosen), back, strict=True):
        if shape is None or not shape.inputs:
            found.append(None)
            continue
        place = id(shape), is_back
        if place not in known:
            alike = _backward(trials, shape) if is_back else forward.get((shape.operator, shape.inputs))
            known[place] = alike
        found.append(known[place])
    return found


def _backward(trials: Sequence[ProductTrial], shape: OperatorShape) -> Tried | None:
    kind, elements = work_class(shape.operator), prod(shape.inputs[0])
    alike = [trial for trial in trials if trial.backward.wide_us and trial.elements == elements]
    alike = [trial for trial in alike if work_class(trial.operator) is kind]
    if not alike:
        return None
    nearest = min(alike, key=lambda trial: _apart(trial, shape))
    return (nearest, nearest.backward) if _apart(nearest, shape) <= _UNLIKE else None


def _apart(trial: ProductTrial, shape: OperatorShape) -> float:
    """The factor between the arithmetic of both; 1 where it was not counted."""
    if not trial.flops or not shape.flops:
        return 1.0
    ratio = _PASSES_BACK * trial.flops / shape.flops
    return max(ratio, 1 / ratio)
