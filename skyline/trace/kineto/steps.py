"""The training steps that the script marked."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skyline.trace.kineto.category import Category
from skyline.trace.kineto.profiler_trace import MarkedSteps

_STEP = re.compile(r"ProfilerStep\D*(\d+)")


def steps_of(
    strings: Sequence[str],
    name: NDArray[np.int32],
    category: NDArray[np.uint8],
    start_us: NDArray[np.float64],
    duration_us: NDArray[np.float64],
) -> MarkedSteps:
    """The ``ProfilerStep#N`` spans of host threads (annotations or operators), in time order.

    Their copies on streams do not count: they end with the GPU's work and overlap each other.
    """
    numbers = {row: int(found.group(1)) for row, text in enumerate(strings) if (found := _STEP.match(text))}
    marked = np.isin(name, list(numbers)) if numbers else np.zeros(len(name), bool)
    on_host = np.isin(category, [int(Category.ANNOTATION), int(Category.CPU_OP)])
    rows = np.flatnonzero(marked & on_host)
    number = np.array([numbers[int(row)] for row in name[rows]], np.int64)
    # Nested profilers name the same step twice: the outer span counts.
    _, first = np.unique(number, return_index=True)
    kept = np.sort(first)
    rows = rows[kept]
    return MarkedSteps(
        number[kept], start_us[rows], start_us[rows] + duration_us[rows], rows.astype(np.int32)
    )
