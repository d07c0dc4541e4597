"""Measured gains of bfloat16 on the CPU that ran the script, and the inputs that autocast casts."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import WORK, TaskKind, WorkClass
from skyline.trace.record import Phase
from skyline.trace.trial import PRODUCTS
from skyline.whatif.cost.thread_scaling import tried_products
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
"""Operators whose result has the format of their input, and Python between the operators."""
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
"""Operators that autocast on a CPU leaves in 16 bits behind a product."""


_STANDING = {
    (WorkClass.MATMUL, False): 0.38,
    (WorkClass.MATMUL, True): 0.38,
    (WorkClass.CONVOLUTION, False): 0.25,
    (WorkClass.CONVOLUTION, True): 0.05,
}
"""By class and whether backward, the share of the time in 16 bits that does not grow with the batch: each call casts a
weight and lays it out again. Products of two activations have no weight, and their share is 0. With four times the
batch, products took 0.66 to 0.76 times the time that one factor predicts; with a quarter, convolutions took 1.75 times,
backward 1.1 times. Elementwise operators keep their factor."""
_MOST_LARGER = 8.0
_OF_ACTIVATIONS = re.compile(r"bmm|matmul|einsum|attention|flash|fmha", re.IGNORECASE)


@lru_cache(maxsize=1 << 12)
def of_activations(name: str) -> bool:
    """True if a product of this name is one of two activations."""
    return _OF_ACTIVATIONS.search(name) is not None


def tried_factors(
    subject: Subject, graph: Graph, heavy: Indices, larger: float = 1.0
) -> npt.NDArray[np.float64]:
    """Time of each chosen task in bfloat16 over that in float32; not a number where no such product was tried.

    The batch is ``larger`` times the one that was tried, and its gain differs.
    """
    tried = tried_products(subject, graph, heavy)
    found = np.array([np.nan if one is None else one[1].narrowing for one in tried], np.float64)
    return _of_larger(graph, heavy, found, larger)


def iteration_factors(
    subject: Subject, graph: Graph, target: str, larger: float = 1.0
) -> npt.NDArray[np.float64]:
    """By task, its time in iterations under autocast over that without, casts included.

    Not a number where no iterations were tried, and for tasks that a change has put in the place of others.
    """
    found = np.full(len(graph), np.nan)
    if (tried := subject.tried) is None:
        return found
    chosen = select(graph, phase=(Phase.FORWARD, Phase.BACKWARD), kind=TaskKind.CPU)
    factors = tried.factors(graph, chosen, tried.standing, (tried.threads, target), larger)
    found[chosen] = _of_larger(graph, chosen, factors, tried.beyond(larger))
    return found


def python_factors(subject: Subject, graph: Graph, target: str) -> npt.NDArray[np.float64]:
    """By task, the time of Python behind it under autocast over that without; 1 where no iterations were tried."""
    if (tried := subject.tried) is None:
        return np.ones(len(graph))
    return tried.python_factors(graph, tried.standing, (tried.threads, target))


def _of_larger(
    graph: Graph, tasks: Indices, factors: npt.NDArray[np.float64], larger: float
) -> npt.NDArray[np.float64]:
    grown = min(_MOST_LARGER, max(1 / _MOST_LARGER, larger))
    standing = np.zeros(len(tasks))
    works = graph.tasks.work[tasks]
    # Forward operators run on the way back as well, where they are computed again.
    nodes = np.array(["Backward" in name for name in graph.tasks.names], np.bool_)[graph.tasks.name[tasks]]
    weighted = ~np.array([of_activations(name) for name in graph.tasks.names], np.bool_)[
        graph.tasks.name[tasks]
    ]
    for (kind, is_node), share in _STANDING.items():
        standing[(works == WORK[kind]) & (nodes == is_node) & weighted] = share
    return np.where(factors < 1, factors * (1 - standing + standing / grown), factors)


def wide_inputs(graph: Graph, products: Indices, operators: Flags | None = None) -> list[bool]:
    """Flags of forward products whose input is in float32 under autocast: no operator before it leaves 16 bits.

    ``operators`` are flags of the tasks to look at, None for all: a GPU's kernels and launches lie between them, and
    cut an operator into several tasks.
    """
    order = np.arange(len(graph)) if operators is None else np.flatnonzero(operators)
    tasks, found = graph.tasks, list[bool]()
    names = [name.removeprefix("aten::") if name.startswith("aten::") else "" for name in tasks.names]
    for place in np.searchsorted(order, products).tolist():
        before = place - 1
        while operators is not None and before >= 0 and tasks.name[order[before]] == tasks.name[order[place]]:
            before -= 1
        while before >= max(0, place - _AS_FAR_BACK) and names[tasks.name[order[before]]] in _PASSES_ON:
            before -= 1
        name = names[tasks.name[order[before]]] if before >= 0 else ""
        found.append(not (name in _STAYS_NARROW or f"aten::{name}" in PRODUCTS))
    return found
