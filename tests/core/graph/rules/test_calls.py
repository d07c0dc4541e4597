from __future__ import annotations

from skyline.graph.rules.calls import gpu_work, launching


def test_work_is_joined_to_calls_by_correlation(traced, events) -> None:
    trace = traced(
        events.launch(0, 5, correlation=4),
        events.call("cudaGraphLaunch", 10, 5, correlation=5),
        events.kernel(3, 4, correlation=4),
        events.kernel(20, 4, correlation=5),
        events.kernel(30, 4, correlation=5, stream=9),
        events.kernel(1, 1, correlation=2),
    )
    work = gpu_work(trace)
    named = [trace.name_of(call) if call >= 0 else None for call in work.call.tolist()]
    assert work.start_us.tolist() == [1, 3, 20, 30]
    assert named == [None, "cudaLaunchKernel", "cudaGraphLaunch", "cudaGraphLaunch"]
    assert work.lane.tolist() == [0, 0, 0, 1]
    assert launching(trace, work).sum() == 2


def test_a_call_that_began_after_the_work_did_not_start_it(traced, events) -> None:
    trace = traced(events.launch(50, 5, correlation=4), events.kernel(3, 4, correlation=4))
    assert gpu_work(trace).call.tolist() == [-1]
