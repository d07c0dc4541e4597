from __future__ import annotations

import numpy as np

from skyline.graph.rules.calls import gpu_work, launching
from skyline.graph.rules.launch import launch_queue
from skyline.graph.rules.names import names_of
from skyline.graph.rules.pieces import cpu_order
from skyline.graph.rules.recorded_tasks import recorded_tasks


def recorded(trace):
    names, work = names_of(trace), gpu_work(trace)
    pieces, _ = cpu_order(trace, names, 0, launching(trace, work))
    return recorded_tasks(trace, names, pieces, work)


def test_a_launch_waits_for_room(traced, events) -> None:
    # Room for two: the third launch lasts until the first kernel has ended.
    trace = traced(
        events.launch(0, 5, 1),
        events.launch(6, 5, 2),
        events.launch(12, 98, 3),
        events.kernel(8, 100, 1),
        events.kernel(109, 10, 2),
        events.kernel(120, 10, 3),
    )
    waiting = launch_queue(recorded(trace), depth=2)
    assert waiting.piece.tolist() == [2]
    assert waiting.until_us.tolist() == [108]
    assert [(one.source, one.target) for one in waiting.dependencies] == [(3, 2)]


def test_nothing_is_assumed_where_a_launch_returned_without_room(traced, events) -> None:
    trace = traced(
        events.launch(0, 5, 1), events.launch(6, 5, 2), events.kernel(8, 100, 1), events.kernel(110, 1, 2)
    )
    assert len(launch_queue(recorded(trace), depth=1).piece) == 0


def test_work_from_before_the_recording_and_graphs_count_as_launches(traced, events) -> None:
    trace = traced(
        events.call("cudaGraphLaunch", 1, 4, 2),
        events.launch(6, 60, 3),
        events.kernel(0, 60, 1),
        events.kernel(61, 10, 2),
        events.kernel(72, 10, 2),
        events.kernel(90, 10, 3),
    )
    waiting = launch_queue(recorded(trace), depth=2)
    assert np.asarray(waiting.until_us).tolist() == [60]
