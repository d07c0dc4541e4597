"""Python code that works on whole weights outside of PyTorch: NumPy on the memory of a weight or its gradient.

``Tensor.numpy`` calls no operator that computes, but its last operator has the shape of the tensor. The
script's work until its next operator has no record of its own, and its time shrinks in proportion to the
weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.graph.graph import Graph
from skyline.graph.task import PHASE
from skyline.trace.record import Phase
from skyline.whatif.cost.embedding_rows import is_table
from skyline.whatif.cost.factored_layers import OneWeight, Replaced
from skyline.whatif.subject import Subject, shapes

_LENT = "aten::resolve_neg"
"""The last operator of ``Tensor.numpy``."""
_PASSES = (PHASE[Phase.FORWARD], PHASE[Phase.BACKWARD])


def with_numpy(subject: Subject, graph: Graph, layers: Sequence[Replaced]) -> Graph:
    """The graph with the Python time after such a call on a layer's weight or gradient scaled to the new size."""
    left = {_size(one): one.after / one.before for one in layers if isinstance(one, OneWeight)}
    tasks = graph.tasks
    own = np.flatnonzero(tasks.lane == tasks.lane_code(subject.lane))
    in_pass = np.isin(tasks.phase[own], _PASSES).tolist()
    gaps, factor = graph.gaps.copy(), 1.0
    for task, shape, passing in zip(own.tolist(), shapes(subject, graph, own), in_pass, strict=True):
        if shape is not None or passing:
            size = shape.inputs[0] if shape is not None and shape.operator == _LENT and shape.inputs else ()
            factor = 1.0 if passing else left.get(size, 1.0)
        gaps[task] *= factor
    return graph if (gaps == graph.gaps).all() else graph.with_times(gaps=gaps)


def _size(layer: OneWeight) -> tuple[int, ...]:
    """The dimensions of the weight: a linear layer has a row for each output, an embedding a row for each word."""
    return (layer.inputs, layer.outputs) if is_table(layer.module) else (layer.outputs, layer.inputs)
