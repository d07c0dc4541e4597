"""What products were tried to take in bfloat16 on the CPU that ran the script, found for the tasks of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.graph.task import work_class
from skyline.graph.tasks import PHASE
from skyline.trace.narrow_trial import PRODUCTS, NarrowTrial
from skyline.trace.phase import Phase
from skyline.trace.shape import OperatorShape
from skyline.whatif.origins import shapes
from skyline.whatif.subject import Subject

_PASSES_BACK = 2.0
"""Arithmetic of a backward pass over that of the forward one: gradients of the input and of the weight."""
_UNLIKE = 4.0
"""Backward work whose arithmetic is further from that of any product tried has other sizes."""


_AS_FAR_BACK = 20
_PASSES_ON = frozenset(
    {
        "",
        "view",
        "_unsafe_view",
        "reshape",
        "flatten",
        "transpose",
        "permute",
        "contiguous",
        "unsqueeze",
        "squeeze",
    }
    | {"expand", "split", "chunk", "slice", "select", "t", "detach", "dropout", "clone", "add_"}
)
"""What gives a result of the format of its input, and Python between the operators."""
_STAYS_NARROW = frozenset(
    {
        "batch_norm",
        "relu",
        "relu_",
        "gelu",
        "silu",
        "sigmoid",
        "tanh",
        "leaky_relu",
        "hardtanh",
        "softmax",
        "mean",
    }
    | {"max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "max_pool1d"}
)
"""What autocast on a CPU leaves in 16 bits where it comes behind a product."""


_GAINS_WITH_SIZE = 0.1
"""Power of the batch with which the time that is saved grows beyond the time itself: in convolutions of four times
the batch 1.11 to 1.13 times."""
_MOST_LARGER = 8.0


def tried_factors(
    subject: Subject, graph: Graph, heavy: Indices, larger: float = 1.0
) -> npt.NDArray[np.float64]:
    """Time of each chosen task in bfloat16 over that in float32, not a number where nothing like it was tried.

    In a batch ``larger`` times as large as the one that was tried, which gains more by it, or less.

    A forward task is known by its operator and sizes. A backward one shows the gradient that came in: it is that of
    the product with as large a result and the likeliest arithmetic.
    """
    profile = subject.profile
    trials = () if profile is None else profile.narrow_trials
    found = np.full(len(heavy), np.nan)
    if not trials:
        return found
    forward = {(trial.operator, trial.inputs): trial.forward for trial in trials}
    back = graph.tasks.phase[heavy] == PHASE[Phase.BACKWARD]
    for place, shape in enumerate(shapes(subject, graph, heavy)):
        if shape is None or not shape.inputs:
            continue
        if back[place]:
            found[place] = _backward(trials, shape)
        else:
            found[place] = forward.get((shape.operator, shape.inputs), np.nan)
    gain = min(_MOST_LARGER, max(1 / _MOST_LARGER, larger)) ** _GAINS_WITH_SIZE
    return np.where(found < 1, 1 - (1 - found) * gain, found)


def wide_inputs(graph: Graph, products: Indices) -> list[bool]:
    """Whether what goes into each forward product is in float32 under autocast: no narrow result is computed last."""
    tasks, found = graph.tasks, list[bool]()
    names = [name.removeprefix("aten::") if name.startswith("aten::") else "" for name in tasks.names]
    for row in products.tolist():
        before = row - 1
        while before >= max(0, row - _AS_FAR_BACK) and names[tasks.name[before]] in _PASSES_ON:
            before -= 1
        name = names[tasks.name[before]] if before >= 0 else ""
        found.append(not (name in _STAYS_NARROW or f"aten::{name}" in PRODUCTS))
    return found


def _backward(trials: Sequence[NarrowTrial], shape: OperatorShape) -> float:
    kind, elements = work_class(shape.operator), prod(shape.inputs[0])
    alike = [trial for trial in trials if trial.backward and trial.elements == elements]
    alike = [trial for trial in alike if work_class(trial.operator) is kind]
    if not alike:
        return float("nan")
    nearest = min(alike, key=lambda trial: _apart(trial, shape))
    return nearest.backward if _apart(nearest, shape) <= _UNLIKE else float("nan")


def _apart(trial: NarrowTrial, shape: OperatorShape) -> float:
    """How many times more arithmetic one has than the other; as if alike where it was not counted."""
    if not trial.flops or not shape.flops:
        return 1.0
    ratio = _PASSES_BACK * trial.flops / shape.flops
    return max(ratio, 1 / ratio)
