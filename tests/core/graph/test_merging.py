from __future__ import annotations

import pytest

from skyline.graph import (
    Cause,
    CyclicGraph,
    Dependency,
    coalesce,
    merge,
    select,
)
from skyline.simulate.engine import simulate


def test_fused_kernels_take_one_turnaround_and_python_stays(pipeline):
    graph = pipeline(3).with_times(gaps=[1.0, 2.0] * 3 + [0.0])
    fused = merge(graph, select(graph, on_gpu=True))
    kernel = select(fused, on_gpu=True)
    assert (fused.durations[kernel].tolist(), fused.gaps[kernel].tolist()) == ([90], [2])
    assert fused.tasks[int(kernel[0])].count == 3
    # It waits for the last of its launches, which begins at 22.
    assert simulate(fused).starts[kernel].tolist() == [26]
    host = merge(graph, select(graph, lane="main"))
    assert (host.durations[0], host.gaps[0]) == (32, 3)


def test_only_neighbours_are_merged(chain):
    graph = chain(("main", 1), ("main", 2), ("gpu", 3), ("main", 4), ("main", 5))
    assert merge(graph, [0, 2, 3, 4]).durations.tolist() == [1, 2, 3, 9]
    assert merge(graph, [0, 1, 3, 4]).durations.tolist() == [12, 3]


def test_what_counted_from_the_start_of_a_merged_task_still_does(chain):
    graph = chain(
        ("main", 10),
        ("main", 10),
        ("gpu", 1),
        gaps={0: 5},
        waits=(Dependency(1, 2, Cause.LAUNCH, 2.0, from_start=True),),
    )
    assert simulate(graph).starts[2] == 17
    assert simulate(merge(graph, [0, 1])).starts[1] == 17


def test_merging_around_what_lies_between_is_a_cycle(chain):
    graph = chain(
        ("a", 1), ("b", 1), ("a", 1), waits=(Dependency(0, 1, Cause.SYNC), Dependency(1, 2, Cause.SYNC))
    )
    with pytest.raises(CyclicGraph):
        simulate(merge(graph, [0, 2]))


def test_like_neighbours_are_merged_and_others_are_not(chain):
    graph = chain(("main", 1), ("main", 2), ("main", 4), gaps={0: 1, 1: 1})
    assert coalesce(graph).durations.tolist() == [1, 2, 4]
    everything = [graph.tasks.kind]
    assert coalesce(graph, everything).durations.tolist() == [7]
    assert coalesce(graph, everything).gaps.tolist() == [2]
    apart = chain(("other", 1), ("main", 2), ("main", 4), waits=(Dependency(0, 2, Cause.GIVEN),))
    assert coalesce(apart, [apart.tasks.kind]).durations.tolist() == [1, 2, 4]
