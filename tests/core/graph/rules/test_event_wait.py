from __future__ import annotations

from skyline.graph.rules.calls import gpu_work
from skyline.graph.rules.constants import LaunchConstants
from skyline.graph.rules.event_wait import event_waits
from skyline.graph.rules.names import names_of

TIMES = LaunchConstants(5.0, 1.0)


def pairs(trace):
    work = gpu_work(trace)
    found = event_waits(trace, names_of(trace), work, TIMES)
    named = [trace.name_of(event) for event in work.event.tolist()]
    return [
        (named[one], named[other])
        for one, other in zip(found.awaited.tolist(), found.waiting.tolist(), strict=True)
    ]


def test_late_work_waited_for_what_ended_just_before(traced, events) -> None:
    trace = traced(
        events.launch(0, 3, 1),
        events.launch(4, 3, 2),
        events.launch(8, 3, 3),
        events.call("cudaStreamWaitEvent", 12, 1, 4),
        events.launch(14, 3, 5),
        events.kernel(6, 100, 1, stream=7, name="compute"),
        events.kernel(10, 20, 2, stream=8, name="other"),
        events.kernel(14, 10, 3, stream=9, name="third"),
        events.kernel(110, 50, 5, stream=9, name="waits"),
    )
    assert pairs(trace) == [("compute", "waits")]


def test_a_wait_that_was_over_is_the_last_launch_elsewhere(traced, events) -> None:
    trace = traced(
        events.launch(0, 3, 1),
        events.call("cudaStreamWaitEvent", 4, 1, 2),
        events.launch(60, 3, 3),
        events.kernel(6, 10, 1, stream=7, name="compute"),
        events.kernel(65, 50, 3, stream=20, name="allreduce"),
    )
    assert pairs(trace) == [("compute", "allreduce")]


def test_the_trace_may_contradict(traced, events) -> None:
    trace = traced(
        events.launch(0, 3, 1),
        events.call("cudaStreamWaitEvent", 4, 1, 2),
        events.launch(60, 3, 3),
        events.kernel(6, 1000, 1, stream=7),
        events.kernel(65, 50, 3, stream=20),
    )
    assert pairs(trace) == []


def test_late_work_without_any_call_to_wait_is_no_wait(traced, events) -> None:
    trace = traced(
        events.launch(0, 3, 1),
        events.launch(4, 3, 2),
        events.kernel(6, 100, 1, stream=7),
        events.kernel(110, 50, 2, stream=8),
    )
    assert pairs(trace) == []


def test_waits_that_the_trace_names_are_taken_as_named(traced, events) -> None:
    named = events.event("cuda_sync", "Stream Wait Event", 14, 1, correlation=4)
    named["args"] |= {
        "cuda_sync_kind": "Stream Wait Event",
        "stream": 9,
        "device": 0,
        "wait_on_stream": 7,
        "wait_on_cuda_event_record_corr_id": 3,
    }
    trace = traced(
        events.launch(0, 2, 1),
        events.launch(3, 2, 2),
        events.call("cudaEventRecord", 6, 1, 3),
        events.launch(8, 2, 5),
        events.call("cudaStreamWaitEvent", 12, 4, 4),
        events.launch(20, 2, 6),
        events.launch(30, 2, 7),
        named,
        events.kernel(10, 10, 1, stream=7, name="first"),
        events.kernel(21, 10, 2, stream=7, name="awaited"),
        events.kernel(32, 99, 5, stream=7, name="after the event"),
        events.kernel(35, 10, 7, stream=8, name="bystander"),
        events.kernel(40, 10, 6, stream=9, name="waits"),
    )
    assert pairs(trace) == [("awaited", "waits")]
