"""Kernels that were measured on some GPUs, as they ship with the package: what others are carried over from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.trace.shape import OperatorShape
from skyline_predictors.constants import Spread
from skyline_predictors.memory_levels import Floats
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.shape_reading import products, read_convolutions, row_sizes

FILE, SPREADS = "wave.npz", "wave.json"
_NEIGHBOURS = 4
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
        # |a - b|² as |a|² + |b|² - 2ab: one product of matrices instead of all differences.
        own, asked = (self.sizes**2).sum(axis=1), (sizes**2).sum(axis=1)
        squares: Floats = np.maximum(0.0, asked[:, None] + own[None, :] - 2.0 * (sizes @ self.sizes.T))
        # The median counts as one more neighbour, at the distance at which a kernel counts a tenth.
        total = np.full(len(sizes), 0.1 * float(np.median(self.log_ratio)))
        weights = np.full(len(sizes), 0.1)
        everyone = np.arange(len(sizes))
        for _ in range(min(_NEIGHBOURS, len(self.sizes))):
            # So few of so many are found sooner one by one than by putting all of them in order.
            nearest: NDArray[np.intp] = squares.argmin(axis=1)
            weight = 1.0 / (1.0 + squares[everyone, nearest] / _REACH**2)
            total += weight * self.log_ratio[nearest]
            weights += weight
            squares[everyone, nearest] = np.inf
        return total / weights


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


def sizes_of(kind: OperatorClass, shapes: list[OperatorShape]) -> Floats:
    """What kernels of one class are compared by: logarithms of the sizes that decide how well they run."""
    if kind is OperatorClass.MATRIX:
        read = products(shapes, "float32")
        columns = (read.batch, read.rows, read.columns, read.inner)
    elif kind is OperatorClass.CONVOLUTION:
        one = read_convolutions(shapes, "float32")
        columns = (one.images * one.out_size, one.channels, one.filters, one.taps)
    else:
        rows, row_bytes = row_sizes(shapes, "float32")
        columns = (rows, row_bytes)
    return np.log2(np.maximum(1.0, np.stack(columns, axis=1)))
