"""The time of one call measured from outside, from that of its kernel.

The kernel starts some time after the first event: the host is still on its way to the launch. The second event is
recorded after the call has returned: no call is measured to take less than that, however short its kernel is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BEFORE = 0.55
"""Of the shortest measured call, what passes before its kernel starts. Times of elementwise work grow with the bytes
that it moves; what is left of them at no bytes is 0.50 to 0.61 of the shortest call on P4, P100, V100, T4 and A100."""


def shown_us(kernel_us: Floats, shortest_us: Floats | float) -> Floats:
    """Measured times of kernels, where the shortest call takes ``shortest_us``."""
    return np.maximum(shortest_us, kernel_us + BEFORE * np.asarray(shortest_us))


def told_us(measured_us: Floats, shortest_us: Floats | float) -> Floats:
    """The kernels behind measured times; of the shortest ones, the most that they can be."""
    return np.asarray(measured_us - BEFORE * np.asarray(shortest_us))
