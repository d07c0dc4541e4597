"""Which comparisons a compiler keeps for the backward pass, where storing them is slow.

The code that PyTorch 2.13 generates for CPUs with AVX2 alone writes a vector of truth values one by one; with AVX-512
they come out of the comparison as they are stored.
"""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.task import WorkClass
from skyline.graph.tasks import PHASE, WORK
from skyline.interval import Interval
from skyline.trace.phase import Phase
from skyline.whatif.catalogue.host.fusion import Group, Regions, drawn
from skyline.whatif.catalogue.host.traffic import most_numbers
from skyline.whatif.subject import Subject

MASK_NS = Interval(23.0, 17.0, 30.0)
"""For each truth value, on one core: written in the forward pass, and read in the backward one. Measured by
``benchmarks/compiled_masks.py`` on one CPU: 17 to 32 ns in two runs, and -1 to 2 where none is kept."""
MASK_PART = 0.95
"""The part of that which threads divide among them."""
_SLOW, _QUICK = "avx2", "avx512f"
_BY_RESULT = frozenset({"aten::relu", "aten::relu_"})
"""Rectifiers that are undone by what came out, which a product behind them keeps in any case."""
_BY_INPUT = frozenset(
    f"aten::{name}{ending}"
    for name in ("leaky_relu", "hardtanh", "relu6", "clamp", "clamp_min", "clamp_max", "threshold")
    for ending in ("", "_")
)
_NORM = "norm"
"""Its input is kept, and all behind it is computed again from that, comparisons as well."""


def kept_masks(
    subject: Subject, graph: Graph, found: Regions, larger: float, checkpointed: Flags | None
) -> Times:
    """By task, how many truth values compiled code would keep; none where these are stored as quickly as others.

    The recorded batch counts, ``larger`` is how many times as large the one is that ``graph`` computes. Blocks that
    are ``checkpointed`` as well keep none.
    """
    kept = np.zeros(len(graph))
    profile = subject.profile
    features = profile.environment.cpu_features if profile is not None else ()
    if subject.on_gpu or _SLOW not in features or _QUICK in features:
        return kept
    computing = np.setdiff1d(found.host, found.views)
    for group in found.groups:
        if graph.tasks.phase[group.tasks[0]] == PHASE[Phase.FORWARD] and group.calls:
            kept[group.tasks] = _kept(graph, group, larger, _before_product(graph, computing, group.tasks))
    return kept if checkpointed is None else np.where(checkpointed, 0.0, kept)


def _kept(graph: Graph, group: Group, larger: float, before_product: bool) -> Times:
    names = [call.operator for call in group.calls]
    found = drawn(graph, group, larger)
    for place, name in enumerate(names):
        if any(_NORM in earlier for earlier in names[:place]):
            continue
        if name in _BY_INPUT or (name in _BY_RESULT and not (before_product and place == len(names) - 1)):
            found[place] = most_numbers(group.calls[place])
    return found


def _before_product(graph: Graph, computing: Indices, tasks: Indices) -> bool:
    """True if the next operator is a product or convolution of the same pass."""
    place = int(np.searchsorted(computing, int(tasks[-1]), side="right"))
    if place == len(computing):
        return False
    after = int(computing[place])
    same = graph.tasks.phase[after] == graph.tasks.phase[tasks[-1]]
    return bool(same and graph.tasks.work[after] != WORK[WorkClass.OTHER])
