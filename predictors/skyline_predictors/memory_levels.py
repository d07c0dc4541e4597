"""The levels of a GPU that data pass through, with the rate of each: multiprocessors, second-level cache, memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Levels:
    """What one GPU sustains, or by row what several do: flop and bytes per µs, and the size of its cache.

    ``l2_bytes_per_us`` is what all multiprocessors together draw from the second-level cache, ``memory_bytes_per_us``
    what comes from memory behind it.
    """

    multiprocessors: Floats
    flop_per_us: Floats
    l2_bytes_per_us: Floats
    memory_bytes_per_us: Floats
    l2_bytes: Floats


@dataclass(frozen=True, slots=True)
class CacheConstants:
    """How much of the second-level cache serves data that come again, and how sharply that ends.

    A working set of ``usable`` times the cache finds half of its data there; ``sharpness`` is the power with which
    the share falls around that size.
    """

    usable: float
    sharpness: float


def missing(working_set_bytes: Floats, l2_bytes: Floats, constants: CacheConstants) -> Floats:
    """The share of accesses to data that came before which memory has to serve again, from 0 to 1.

    A cache that dropped the oldest data first would fall from all to nothing at its size; real ones, with hashed
    sets and other policies, fall smoothly.
    """
    ratio = working_set_bytes / (constants.usable * l2_bytes)
    return 1.0 - 1.0 / (1.0 + ratio**constants.sharpness)


def together(power: float, *times_us: Floats) -> Floats:
    """Times of levels that work side by side: at least the longest.

    Where several take alike long they hinder each other, as the norm of this power has it.
    """
    longest: Any = np.maximum(reduce(np.maximum, times_us), 1e-12)
    return longest * sum((one / longest) ** power for one in times_us) ** (1 / power)
