from __future__ import annotations

import numpy as np

from skyline.graph.from_kineto import built
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.simulate.engine import simulate


def sync(recorded):
    (found,) = select(recorded.graph, kind=TaskKind.SYNC).tolist()
    return found


def test_waiting_is_taken_off_and_comes_back(traced, events) -> None:
    recorded = built(
        traced(
            events.op("aten::x", 0, 10),
            events.launch(2, 4, 1),
            events.call("cudaStreamSynchronize", 20, 90, 2),
            events.kernel(9, 91, 1),
        )
    )
    task = sync(recorded)
    assert recorded.graph.durations[task] == 10
    assert recorded.start_us[task] == 100
    halved = scale(recorded.graph, select(recorded.graph, on_gpu=True), 0.5)
    ends = np.asarray(simulate(halved).ends)
    assert ends[task] == 2 + 7 + 45.5 + 10


def test_a_call_does_not_wait_for_what_was_launched_after_it(traced, events) -> None:
    recorded = built(
        traced(
            events.call("cudaStreamSynchronize", 0, 5, 2),
            events.launch(6, 4, 1),
            events.kernel(12, 3, 1),
        )
    )
    assert recorded.found["waits of the CPU for the GPU"] == 0


def test_a_call_for_the_device_waits_for_all_streams(traced, events) -> None:
    recorded = built(
        traced(
            events.launch(0, 2, 1),
            events.launch(3, 2, 2),
            events.call("cudaDeviceSynchronize", 6, 94, 3),
            events.kernel(7, 20, 1, stream=7),
            events.kernel(10, 80, 2, stream=8),
        )
    )
    assert recorded.found["waits of the CPU for the GPU"] == 2
    assert recorded.graph.durations[sync(recorded)] == 10
