"""The time of one call as timed from outside, computed from the time of its kernel.

The kernel starts some time after the first event, because the host has not yet reached the launch. The second
event is recorded after the call has returned. A short kernel therefore never shows a time below the time of
the call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BEFORE = 0.55
"""Time before the kernel starts, as a share of the shortest measured call. Times of elementwise work grow
with the bytes moved; extrapolated to no bytes, they are 0.50 to 0.61 of the shortest call on P4, P100, V100,
T4 and A100."""


def shown_us(kernel_us: Floats, shortest_us: Floats | float) -> Floats:
    """Times that are measured for the kernels if the shortest call takes ``shortest_us``."""
    return np.maximum(shortest_us, kernel_us + BEFORE * np.asarray(shortest_us))


def told_us(measured_us: Floats, shortest_us: Floats | float) -> Floats:
    """Kernel times behind measured times. For the shortest calls, an upper bound of the kernel time."""
    return np.asarray(measured_us - BEFORE * np.asarray(shortest_us))
