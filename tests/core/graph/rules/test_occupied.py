from __future__ import annotations

import numpy as np

from skyline.graph.rules.calls import gpu_work
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.launch import occupied

TIMES = LaunchConstants(5.0, 1.0)


def test_a_late_kernel_waited_for_the_one_that_filled_the_gpu(traced, events) -> None:
    trace = traced(
        events.launch(0, 3, 1),
        events.launch(10, 3, 2),
        events.kernel(5, 1000, 1, stream=7),
        events.kernel(950, 20, 2, stream=8),
    )
    found = occupied(trace, gpu_work(trace), TIMES, np.empty(0, np.int64))
    assert list(zip(found.awaited.tolist(), found.waiting.tolist(), strict=True)) == [(0, 1)]
    assert len(occupied(trace, gpu_work(trace), TIMES, np.array([1]))) == 0


def test_two_kernels_may_share_the_gpu(traced, events) -> None:
    trace = traced(
        events.launch(0, 3, 1),
        events.launch(10, 3, 2),
        events.kernel(5, 1000, 1, stream=7),
        events.kernel(70, 20, 2, stream=8),
    )
    assert len(occupied(trace, gpu_work(trace), TIMES, np.empty(0, np.int64))) == 0
