"""Work that only moves bytes: elementwise operators, and softmax and normalisation, which do so row by row."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline.lazy_dataclass import dataclass
from skyline_predictors.learned.machine import LearnedGpu

Floats = NDArray[np.float64]
_LONG_ROW = 1024


class StreamConstants(msgspec.Struct, frozen=True):
    """Fitted constants, one set for all GPUs.

    ``stacked_share`` and ``plain_share`` are the shares of the stated bandwidth that stacked memory (HBM) and other
    memory deliver. ``usable`` is how much of the second-level cache serves data that come again, ``l2_share`` the
    share of its ports that they come at. ``least_us`` is the shortest kernel. Rows too long for the registers of a
    block are read ``again``, so many times all bytes.
    """

    stacked_share: float
    plain_share: float
    usable: float
    l2_share: float
    least_us: float
    again: float


@dataclass(frozen=True, slots=True)
class Streams:
    """Operators over ``elements`` in rows of ``length``, reading and writing ``bytes_moved`` in all.

    ``effort`` tells arithmetic that takes longer than the next number takes to come: 1 for a division, 2 for what
    goes by series (powers, tanh, the error function), else 0.
    """

    elements: Floats
    length: Floats
    bytes_moved: Floats
    effort: Floats


def least_us(streams: Streams, gpu: LearnedGpu) -> Floats:
    """A bound that no kernel beats: the stated bandwidth for all that the cache cannot hold."""
    return np.maximum(0.0, streams.bytes_moved - gpu.l2_bytes) / gpu.bytes_per_us


def physics_us(streams: Streams, gpu: LearnedGpu, constants: StreamConstants) -> Floats:
    """Bytes at the rate of the level that they come from, in µs."""
    share = constants.stacked_share if gpu.stacked_memory else constants.plain_share
    from_memory = 1.0 / (1.0 + (constants.usable * gpu.l2_bytes / streams.bytes_moved) ** 2)
    moved = streams.bytes_moved * np.where(streams.length > _LONG_ROW, 1.0 + constants.again, 1.0)
    memory = moved * from_memory / (gpu.bytes_per_us * share)
    cache = moved * (1.0 - from_memory) / (gpu.l2_bytes_per_us * constants.l2_share)
    return memory + cache + constants.least_us


def features(streams: Streams, gpu: LearnedGpu, physics: Floats) -> Floats:
    """Features for the departure of an operator from physics: ratios and sizes, no GPU."""
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
