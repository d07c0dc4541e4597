"""Work that only moves bytes: elementwise operators, and softmax and normalisation, which work row by row."""

from __future__ import annotations

from enum import Enum

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline_predictors.learned.machine import LearnedGpu

Floats = NDArray[np.float64]
_LONG_ROW = 1024
"""Rows of softmax beyond this length do not fit into the registers of a warp."""
_NORM_THREADS, _SOFTMAX_THREADS = 128.0, 512.0
_NORM_AGAIN, _SOFTMAX_AGAIN = 0.5, 1.0
"""Bytes that are read again, as a share of those read and written once. Normalisation reads a row for its
mean and variance, then again to apply them. Softmax reads long rows for the maximum, for the sum, and to
divide by it (PyTorch's kernels)."""
_HELD, _CLIFF = 0.75, 6.0
"""Rows that are read again in turn are all found in a cache if they take less than the first figure, a share
of its size. In a smaller cache none are found, because caches evict the data used longest ago. The second
figure is the steepness of this change."""
_WARP, _ELEMENT = 32, 4
_OVERLAP = 3.0
"""The power of the norm that combines bytes and instructions: if both take equally long, they slow each other
down."""


class RowKernel(Enum):
    """The kernels with which PyTorch computes rows: none, softmax's, and layer normalisation's."""

    NONE = "none"
    SOFTMAX = "softmax"
    NORM = "norm"


class StreamConstants(msgspec.Struct, frozen=True):
    """Fitted constants, one set for all GPUs.

    ``stacked_share`` and ``plain_share`` are the shares of the bandwidth that stacked memory (HBM) and other
    memory deliver. ``usable`` is the share of the second-level cache that serves repeated reads, ``l2_share``
    the share of its ports' rate that these reads reach. ``least_us`` is the time of the shortest kernel.

    In kernels that work row by row, each warp issues ``each`` instructions for 32 elements, and ``lead``
    instructions for a row, mostly to combine the results of its threads.
    """

    stacked_share: float
    plain_share: float
    usable: float
    l2_share: float
    least_us: float
    each: float
    lead: float


@dataclass(frozen=True, slots=True)
class Streams:
    """Operators over ``elements`` in rows of ``length``, which read and write ``bytes_moved`` in total.

    ``effort`` grades arithmetic that takes longer than the next number takes to arrive: 1 for a division, 2
    for series (powers, tanh, the error function), else 0.
    """

    elements: Floats
    length: Floats
    bytes_moved: Floats
    effort: Floats


def least_us(streams: Streams, gpu: LearnedGpu) -> Floats:
    """A lower bound for every kernel, in µs: the stated bandwidth for all bytes that the cache cannot hold."""
    return np.maximum(0.0, streams.bytes_moved - gpu.l2_bytes) / gpu.bytes_per_us


def physics_us(streams: Streams, gpu: LearnedGpu, constants: StreamConstants, kernel: RowKernel) -> Floats:
    """Time of the bytes at the rate of their memory level, or of the rows' instructions if that is longer, in µs."""
    share = constants.stacked_share if gpu.stacked_memory else constants.plain_share
    from_memory = 1.0 / (1.0 + (constants.usable * gpu.l2_bytes / streams.bytes_moved) ** 2)
    rows = _rows(streams, gpu, constants, kernel)
    moved = streams.bytes_moved * rows.reads
    memory = moved * from_memory / (gpu.delivered_bytes_per_us * share)
    cache = moved * (1.0 - from_memory) / (gpu.l2_bytes_per_us * constants.l2_share)
    bytes_us, issue_us = memory + cache, rows.instructions / gpu.warps_per_us
    return (bytes_us**_OVERLAP + issue_us**_OVERLAP) ** (1 / _OVERLAP) + constants.least_us


@dataclass(frozen=True, slots=True)
class _Rows:
    """The factor by which repeated reads of rows multiply the bytes, and the number of instructions of all warps."""

    reads: Floats
    instructions: Floats


def _rows(streams: Streams, gpu: LearnedGpu, constants: StreamConstants, kernel: RowKernel) -> _Rows:
    length = streams.length
    if kernel is RowKernel.NONE:
        return _Rows(np.ones_like(length), np.zeros_like(length))
    if kernel is RowKernel.NORM:
        # One block computes a row. Its threads take four elements at a time.
        threads = np.full_like(length, _NORM_THREADS)
        lanes = np.ceil(length / _NORM_THREADS) * _NORM_THREADS
        again = np.full_like(length, _NORM_AGAIN)
    else:
        # Short rows: one warp per row, padded to a power of two. Longer rows: one block each, which reads
        # them again.
        padded = 2.0 ** np.ceil(np.log2(np.maximum(_WARP, length)))
        short = length <= _LONG_ROW
        threads = np.where(short, _WARP, np.minimum(_SOFTMAX_THREADS, padded / 8))
        lanes = np.where(short, padded, length)
        again = np.where(short, 0.0, _SOFTMAX_AGAIN)
    rows = streams.elements / length
    under_way = np.minimum(rows, gpu.threads / threads) * length * _ELEMENT
    missed = 1.0 / (1.0 + (_HELD * gpu.row_bytes / under_way) ** _CLIFF)
    instructions = rows * (lanes * constants.each + threads * constants.lead) / _WARP
    return _Rows(1.0 + again * missed, instructions)


def features(streams: Streams, gpu: LearnedGpu, physics: Floats) -> Floats:
    """Features for the departure of an operator from physics: ratios and sizes, without the GPU's identity."""
    rows = streams.elements / streams.length
    padded = 2.0 ** np.ceil(np.log2(np.maximum(1.0, streams.length)))
    columns = [
        np.log2(physics),
        np.log2(streams.bytes_moved / gpu.l2_bytes),
        np.log2(streams.elements / gpu.multiprocessors),
        streams.bytes_moved / streams.elements,
        streams.effort,
        np.log2(streams.length),
        np.log2(rows / gpu.multiprocessors),
        padded / streams.length,
        sum((streams.length % (1 << step) == 0).astype(float) for step in range(1, 8)) + 0.0 * rows,
    ]
    return np.stack(columns, axis=1)
