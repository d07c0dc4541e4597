"""Kernels that were measured on some GPUs, as they ship with the package: what others are carried over from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline_predictors.constants import Spread
from skyline_predictors.memory_levels import Floats
from skyline_predictors.operator_class import OperatorClass

FILE, SPREADS = "wave.npz", "wave.json"
_NEIGHBOURS = 4
_AT_ONCE = 128
"""Kernels compared with all measured ones at a time, so that the table stays in the processor's cache."""
_REACH = 0.5
"""A kernel whose sizes differ by that much, in doublings summed in squares, counts half."""


@dataclass(frozen=True, slots=True)
class MeasuredKernels:
    """Kernels of one class on one GPU: the logarithms (base 2) of their sizes, and how their times compare.

    ``log_ratio`` is the logarithm of the measured time over what the traffic model says of the kernel on this GPU.
    """

    sizes: Floats
    log_ratio: Floats

    def near(self, sizes: Floats) -> Floats:
        """The log ratio that the nearest measured kernels suggest for others; far from all of them, the median."""
        # The median counts as one more neighbour, at the distance at which a kernel counts a tenth.
        total = np.full(len(sizes), 0.1 * float(np.median(self.log_ratio)))
        weights = np.full(len(sizes), 0.1)
        for places in self._nearest(sizes):
            distance = sizes - self.sizes[places]
            weight = 1.0 / (1.0 + (distance * distance).sum(axis=1) / _REACH**2)
            total += weight * self.log_ratio[places]
            weights += weight
        return total / weights

    def _nearest(self, sizes: Floats) -> NDArray[np.intp]:
        """Which measured kernels are nearest to each of some others: one row for the nearest, one for the next, ..."""
        own, asked = self.sizes.astype(np.float32), sizes.astype(np.float32)
        found = np.empty((min(_NEIGHBOURS, len(own)), len(asked)), dtype=np.intp)
        # |a - b|² but for |a|², which is the same for all: one product of matrices instead of all differences.
        towards, lengths = -2.0 * own.T, (own * own).sum(axis=1)
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            squares = some @ towards + lengths
            everyone = np.arange(len(some))
            for places in found[:, start : start + _AT_ONCE]:
                # So few of so many are found sooner one by one than by putting all of them in order.
                squares.argmin(axis=1, out=places)
                squares[everyone, places] = np.inf
        return found


Source = dict[OperatorClass, MeasuredKernels]


@cache
def sources() -> dict[str, Source]:
    """By the name of the GPU, those that ship with the package."""
    found: dict[str, Source] = {}
    with np.load(
        BytesIO(files("skyline_predictors").joinpath(FILE).read_bytes()), allow_pickle=False
    ) as held:
        for key in held.files:
            gpu, kind, column = key.split("|")
            if column == "sizes":
                ratios = held[f"{gpu}|{kind}|log_ratio"].astype(np.float64)
                sizes = held[key].astype(np.float64)
                found.setdefault(gpu, {})[OperatorClass(kind)] = MeasuredKernels(sizes, ratios)
    return found


class WaveSpreads(msgspec.Struct, frozen=True):
    """How far measured times lie from carried ones, by class.

    ``known`` is for other kernels of the same GPU, ``left_out`` for another GPU, the worst of the pairs that could be
    tried. ``rows`` tells how many kernels of each GPU ship,
    ``data_sha256`` and ``date`` of which file they were taken and when.
    """

    known: dict[OperatorClass, Spread]
    left_out: dict[OperatorClass, Spread]
    rows: dict[str, int]
    data_sha256: str
    date: str


@cache
def wave_spreads() -> WaveSpreads:
    """Those that ship with the package."""
    return msgspec.json.decode(files("skyline_predictors").joinpath(SPREADS).read_bytes(), type=WaveSpreads)
