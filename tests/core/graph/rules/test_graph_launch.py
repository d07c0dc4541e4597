from __future__ import annotations

import numpy as np

from skyline.graph.rules.calls import gpu_work
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.launch import with_unrecorded

TIMES = LaunchConstants(5.0, 1.0)
NOTHING = np.empty(0, np.int64)


def traced_graph(traced, events):
    return traced(
        events.call("cudaGraphLaunch", 0, 4, 1),
        events.kernel(5, 10, 1),
        events.kernel(16, 10, 1),
        events.kernel(126, 10, 1),
    )


def test_a_pause_inside_a_graph_is_work_that_nobody_recorded(traced, events) -> None:
    trace = traced_graph(traced, events)
    work, count = with_unrecorded(trace, gpu_work(trace), TIMES, NOTHING)
    assert count == 1
    assert list(zip(work.start_us.tolist(), work.end_us.tolist(), strict=True)) == [
        (5, 15),
        (16, 26),
        (27, 125),
        (126, 136),
    ]
    assert trace.name_of(int(work.event[2])) == "cudaGraphLaunch"


def test_a_pause_that_a_wait_explains_stays_a_pause(traced, events) -> None:
    trace = traced_graph(traced, events)
    assert with_unrecorded(trace, gpu_work(trace), TIMES, np.array([2]))[1] == 0
