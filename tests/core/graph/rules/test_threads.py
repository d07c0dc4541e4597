from __future__ import annotations

from skyline.graph.rules.names import names_of
from skyline.graph.rules.threads import host_threads


def test_the_script_autograd_and_a_watchdog(traced, events) -> None:
    trace = traced(
        events.op("autograd::engine::evaluate_function: AddmmBackward0", 0, 900, thread=5),
        events.op("aten::linear", 0, 100, thread=6),
        events.call("cudaEventQuery", 10, 5, correlation=1, thread=7),
    )
    hosts = host_threads(trace, names_of(trace))
    assert trace.threads[hosts.main].id == "6"
    assert [trace.threads[one].id for one in hosts.autograd] == ["5"]
    assert len(hosts.taking_part) == 2
    assert hosts.watching == 1


def test_steps_tell_the_script(traced, events) -> None:
    trace = traced(events.note("ProfilerStep#3", 0, 5, thread=2), events.op("aten::x", 0, 1000, thread=1))
    assert trace.threads[host_threads(trace, names_of(trace)).main].id == "2"
