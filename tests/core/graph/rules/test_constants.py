from __future__ import annotations

import pytest

from skyline.graph.rules.calls import gpu_work
from skyline.graph.rules.constants import USUAL_LATENCY_US, constants_of


def test_latency_where_the_stream_was_idle_turnaround_where_work_waited(traced, events) -> None:
    trace = traced(
        events.launch(0, 3, 1),
        events.launch(4, 3, 2),
        events.launch(8, 3, 3),
        events.kernel(10, 100, 1),
        events.kernel(112, 50, 2),
        events.kernel(164, 50, 3),
    )
    found = constants_of(trace, gpu_work(trace))
    assert found.launch_latency_us == pytest.approx(10)
    assert found.turnaround_us == pytest.approx(2)


def test_a_stream_that_was_never_idle_tells_no_latency(traced, events) -> None:
    trace = traced(events.kernel(0, 100, 1), events.launch(4, 3, 2), events.kernel(101, 50, 2))
    assert constants_of(trace, gpu_work(trace)).launch_latency_us == USUAL_LATENCY_US


def test_a_trace_without_a_gpu(traced, events) -> None:
    trace = traced(events.op("aten::x", 0, 1))
    assert constants_of(trace, gpu_work(trace)).turnaround_us == 0.0
