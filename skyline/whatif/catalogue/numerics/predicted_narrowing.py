"""Autocast on a predicted profile: the predictor is asked about the operators in 16 bits."""

from __future__ import annotations

import re

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.whatif.constant import Constant
from skyline.whatif.number_formats import Factors, in_format
from skyline.whatif.predicted_kernels import PredictedKernels
from skyline.whatif.subject import Subject

_WIDE_NORM = re.compile(r"layer_?norm|group_?norm|rms_?norm", re.IGNORECASE)
_NARROW_PART = Constant(
    0.7,
    0.0,
    1.0,
    "an assumption: the part of the kernels between products whose inputs have 16 bits, in models with norms that "
    "autocast computes in float32; all of them have in other models",
)


def as_predicted(
    subject: Subject, graph: Graph, heavy: Indices, light: Indices, target: str
) -> tuple[Graph, Graph, Graph] | None:
    """The graph with every kernel as the predictor has it in a step under autocast; None where nothing is predicted.

    ``heavy`` kernels are in the target format, ``light`` ones where their inputs are, and others stay as wide.
    """
    known = PredictedKernels.of(subject, graph)
    if known is None:
        return None
    is_heavy, is_light = np.isin(known.kernels, heavy), np.isin(known.kernels, light)
    narrow = [
        in_format(shape, target) if changes else shape
        for shape, changes in zip(known.shapes, is_heavy | is_light, strict=True)
    ]
    wide = [
        changed if is_product else shape
        for shape, changed, is_product in zip(known.shapes, narrow, is_heavy, strict=True)
    ]
    # Asked together: predictors tell a step with products in 16 bits as a whole.
    count = len(narrow)
    both = known.factors([*known.shapes, *known.shapes], [*narrow, *wide])
    some_wide = any(_WIDE_NORM.search(shape.operator) for shape in known.shapes)
    part = _NARROW_PART if some_wide else None

    def mixed(ends: np.ndarray, narrow_part: float) -> np.ndarray:
        return narrow_part * ends[:count] + (1 - narrow_part) * ends[count:]

    factors = Factors(
        mixed(both.likely, 1.0 if part is None else part.value),
        mixed(both.least, 1.0 if part is None else part.high),
        mixed(both.most, 1.0 if part is None else part.low),
    )
    return factors.applied(graph, known.kernels)
