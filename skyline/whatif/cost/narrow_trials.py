"""How much less products were tried to take in bfloat16 on the CPU that ran the script, and which inputs are cast."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices
from skyline.graph.graph import Graph
from skyline.trace.product_trial import PRODUCTS
from skyline.whatif.cost.tried_products import tried_products
from skyline.whatif.subject import Subject

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
    """
    tried = tried_products(subject, graph, heavy)
    found = np.array([np.nan if one is None else one[1].narrowing for one in tried], np.float64)
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
