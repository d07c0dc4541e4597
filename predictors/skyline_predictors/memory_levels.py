"""Times of the levels of a GPU that data pass through: multiprocessors, second-level cache, memory."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def together(power: float, *times_us: Floats) -> Floats:
    """Times of levels that work side by side: at least the longest.

    Where several take alike long they hinder each other, as the norm of this power has it.
    """
    longest: Any = np.maximum(reduce(np.maximum, times_us), 1e-12)
    return longest * sum((one / longest) ** power for one in times_us) ** (1 / power)
