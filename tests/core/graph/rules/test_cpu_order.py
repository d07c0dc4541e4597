from __future__ import annotations

import numpy as np

from skyline.graph.rules.calls import gpu_work, launching
from skyline.graph.rules.launch import gaps_of
from skyline.graph.rules.names import names_of
from skyline.graph.rules.pieces import Role, cpu_order

NOTHING = np.empty(0, np.int64)


def order(trace):
    return cpu_order(trace, names_of(trace), 0, launching(trace, gpu_work(trace)))


def stretches(trace, pieces):
    return [
        (trace.name_of(event), start, end)
        for event, start, end in zip(pieces.event, pieces.start_us, pieces.end_us, strict=True)
    ]


def test_an_operator_is_cut_where_it_launches(traced, events) -> None:
    trace = traced(
        events.op("aten::linear", 0, 50),
        events.op("aten::addmm", 5, 40),
        events.launch(20, 10, correlation=3),
        events.call("cudaStreamIsCapturing", 40, 2, correlation=4),
        events.op("aten::relu", 60, 5),
        events.kernel(40, 9, correlation=3),
    )
    pieces, clipped = order(trace)
    assert stretches(trace, pieces) == [
        ("aten::linear", 0, 20),
        ("cudaLaunchKernel", 20, 30),
        ("aten::linear", 30, 50),
        ("aten::relu", 60, 65),
    ]
    assert clipped == 0
    assert pieces.role.tolist() == [Role.OPERATOR, Role.LAUNCH, Role.OPERATOR, Role.OPERATOR]
    assert gaps_of(pieces, NOTHING).tolist() == [0, 0, 10, 0]
    assert gaps_of(pieces, np.array([2])).tolist() == [0, 0, 0, 0]


def test_annotations_are_around_work_and_no_work(traced, events) -> None:
    trace = traced(
        events.note("ProfilerStep#1", 0, 100),
        events.note("Optimizer.step#SGD.step", 10, 50),
        events.op("aten::add_", 20, 5),
    )
    pieces, _ = order(trace)
    assert stretches(trace, pieces) == [("aten::add_", 20, 25)]


def test_fetching_a_batch_is_work(traced, events) -> None:
    trace = traced(
        events.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30),
        events.op("aten::stack", 10, 5),
    )
    pieces, _ = order(trace)
    assert [(start, end) for _, start, end in stretches(trace, pieces)] == [(0, 30)]


def test_an_event_that_ends_after_the_one_around_it_is_clipped(traced, events) -> None:
    trace = traced(events.op("aten::a", 0, 10), events.op("aten::b", 8, 12), events.op("aten::c", 30, 1))
    pieces, clipped = order(trace)
    assert stretches(trace, pieces) == [("aten::a", 0, 10), ("aten::c", 30, 31)]
    assert clipped == 1


def test_events_without_length_stay_in_order(traced, events) -> None:
    trace = traced(
        events.op("aten::a", 0, 0),
        events.op("aten::b", 0, 4),
        events.launch(4, 0, 3),
        events.kernel(20, 1, 3),
    )
    pieces, _ = order(trace)
    assert [(start, end) for _, start, end in stretches(trace, pieces)] == [(0, 4), (4, 4)]
