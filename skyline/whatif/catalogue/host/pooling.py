"""The time of max pooling in code generated for a CPU, relative to PyTorch's own code.

Generated code stores images channels last and processes many channels at a time. PyTorch's own code does so
only in that layout; with channels first, it processes windows number by number. If the comparison of a ReLU
before the pooling is kept for the backward pass, generated code works number by number, too. Its backward
pass searches for the maximum in each window, while PyTorch's own code has stored its position.
``benchmarks/compiled_pooling.py`` measures the factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape

_FINDS_MAXIMA = ("max_pool", "maxpool")
_RECTIFIERS = ("relu", "hardtanh", "clamp", "threshold")
_CHANNELS_LAST = "channels last"


class PoolingKind(IntEnum):
    """The kind of an operator: max pooling or not, the layout of its images, and a kept comparison before it."""

    NONE = 0
    PLAIN = 1
    PLAIN_CHANNELS_LAST = 2
    KEPT = 3
    KEPT_CHANNELS_LAST = 4


@dataclass(frozen=True, slots=True)
class PoolingFactors:
    """The ratio of the time in generated code to PyTorch's own, by kind of pooling: forward and backward."""

    forward: tuple[float, float, float, float, float]
    backward: tuple[float, float, float, float, float]

    def of(self, kinds: Indices, *, backward: bool, channels_last: bool) -> Times:
        """The factor of each task; with ``channels_last``, for that layout, whichever was recorded."""
        if channels_last:
            kinds = np.where(np.isin(kinds, (PoolingKind.PLAIN, PoolingKind.KEPT)), kinds + 1, kinds)
        return np.array(self.backward if backward else self.forward)[kinds]


@dataclass(frozen=True, slots=True)
class PoolingRange:
    """The likely factors and both ends of their range."""

    likely: PoolingFactors
    least: PoolingFactors
    most: PoolingFactors


POOLING = PoolingRange(
    PoolingFactors((1.0, 0.1, 0.85, 2.0, 21.0), (1.0, 5.5, 5.5, 12.0, 12.0)),
    PoolingFactors((1.0, 0.05, 0.5, 1.3, 10.0), (1.0, 2.0, 2.0, 6.0, 6.0)),
    PoolingFactors((1.0, 0.3, 1.6, 3.0, 31.0), (1.0, 10.0, 10.0, 18.0, 18.0)),
)
"""Medians of the benchmark on a Xeon with AVX-512, one thread, and roughly its least and largest ratios."""


def pooling_kinds(names: Sequence[str], calls: Sequence[OperatorShape | None]) -> Indices:
    """The kind of pooling of each operator of one group, from the names in their running order."""
    lowered = [name.lower() for name in names]
    pools = [any(part in name for part in _FINDS_MAXIMA) for name in lowered]
    kinds = np.full(len(names), PoolingKind.NONE, np.int64)
    for place, finds in enumerate(pools):
        if finds:
            last = (call := calls[place]) is not None and call.layout == _CHANNELS_LAST
            kept = _keeps_comparison(lowered, place)
            kinds[place] = (PoolingKind.KEPT if kept else PoolingKind.PLAIN) + last
    return kinds


def _keeps_comparison(names: Sequence[str], pooling: int) -> bool:
    """True if a rectifier precedes the pooling in the forward pass, without a norm whose input shows the sign again."""
    before = names[pooling + 1 :] if "backward" in names[pooling] else names[:pooling]
    return any(part in name for name in before for part in _RECTIFIERS) and not any(
        "norm" in name for name in before
    )
