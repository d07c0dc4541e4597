"""Times of the parts of a GPU that data pass through: multiprocessors, second-level cache, memory."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def together(power: float, *times_us: Floats) -> Floats:
    """Time of work that runs in parallel on several levels: at least the longest of its times.

    Levels slow each other down if several take equally long. The norm of this power describes it.
    """
    longest: Any = np.maximum(reduce(np.maximum, times_us), 1e-12)
    return longest * sum((one / longest) ** power for one in times_us) ** (1 / power)
