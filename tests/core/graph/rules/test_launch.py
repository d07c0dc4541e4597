from __future__ import annotations

from skyline.graph.dependency import Cause
from skyline.graph.from_kineto import built
from skyline.simulate.engine import simulate


def test_work_starts_a_latency_after_its_call_began_even_while_the_call_goes_on(traced, events) -> None:
    recorded = built(
        traced(
            events.launch(0, 20, 1),
            events.launch(100, 5, 2),
            events.kernel(8, 10, 1),
            events.kernel(108, 10, 2),
        )
    )
    assert recorded.constants.launch_latency_us == 8
    launches = [one for one in recorded.graph.structure.dependencies if one.cause is Cause.LAUNCH]
    assert all(one.from_start and one.lag_us == 8 for one in launches)
    assert simulate(recorded.graph).makespan_us == 118


def test_work_from_before_the_recording_keeps_its_time_or_follows_its_stream(traced, events) -> None:
    recorded = built(
        traced(
            events.kernel(5, 10, 1),
            events.kernel(16, 10, 2),
            events.kernel(60, 10, 3),
            events.op("aten::x", 0, 100),
        )
    )
    origins = [one.lag_us for one in recorded.graph.structure.dependencies]
    assert origins == [5, 60]
    assert recorded.found["work launched before the recording"] == 3
