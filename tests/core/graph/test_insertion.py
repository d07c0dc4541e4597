from __future__ import annotations

import pytest

from skyline.errors import UsageError
from skyline.graph import (
    Cause,
    Dependency,
    InsertedGpuWork,
    Insertion,
    Phase,
    Task,
    TaskKind,
    WorkClass,
    insert,
    insert_gpu_work,
    prioritise,
)
from skyline.simulate.engine import simulate


def task(name, kind, lane):
    return Task(name, kind, WorkClass.OTHER, lane, Phase.FORWARD, 0)


KERNEL = task("new", TaskKind.KERNEL, "stream 7")


def starts(graph):
    return {one.name: start for one, start in zip(graph.tasks, simulate(graph).starts, strict=True)}


def test_what_stands_behind_is_shifted(chain):
    graph = chain(("main", 10), ("gpu", 4), waits=(Dependency(0, 1, Cause.LAUNCH),))
    grown = insert(graph, [Insertion(task("new", TaskKind.CPU, "main"), 3, after=-1, gap_us=1)])
    assert starts(grown) == {"new": 0, "t0": 4, "t1": 14}


def test_several_stand_in_the_order_given_and_wait_for_each_other(chain):
    graph = chain(("main", 10), ("main", 5))
    first = Insertion(task("first", TaskKind.CPU, "main"), 1, after=0)
    second = Insertion(task("second", TaskKind.CPU, "worker"), 2, after=0)
    grown = insert(graph, [first, second], [Dependency(2, 3, Cause.GIVEN), Dependency(3, 1, Cause.GIVEN)])
    assert [one.name for one in grown.tasks] == ["t0", "first", "second", "t1"]
    assert starts(grown) == {"t0": 0, "first": 10, "second": 11, "t1": 13}


def test_a_place_that_there_is_not_is_an_error(chain):
    with pytest.raises(IndexError, match="behind task -1 to 0"):
        insert(chain(("main", 10)), [Insertion(KERNEL, 3, after=1)])


def test_a_kernel_brings_its_launch_and_takes_its_turn(pipeline):
    graph = insert_gpu_work(pipeline(), [InsertedGpuWork(KERNEL, 8.0, after=0)])
    found = starts(graph)
    # Launched from 10 on, it runs between the kernels launched before and after it.
    assert (found["launch new"], found["new"], found["sgemm 1"]) == (10, 34, 42)
    assert simulate(graph).makespan_us == 74
    launch = next(one for one in graph.tasks if one.name == "launch new")
    assert (launch.kind, launch.lane) == (TaskKind.LAUNCH, "main")


def test_a_kernel_on_a_stream_of_its_own_starts_a_latency_after_its_launch(pipeline):
    alone = task("new", TaskKind.KERNEL, "stream 9")
    graph = insert_gpu_work(pipeline(), [InsertedGpuWork(alone, 8.0, after=2)])
    assert starts(graph)["new"] == 20 + 4


def test_kernels_behind_the_same_call_are_launched_in_turn(pipeline):
    other = task("other", TaskKind.KERNEL, "stream 7")
    work = [InsertedGpuWork(KERNEL, 8.0, after=2), InsertedGpuWork(other, 8.0, after=2)]
    found = starts(insert_gpu_work(pipeline(), work, launch_us=1.0, latency_us=50.0))
    assert (found["launch new"], found["launch other"]) == (20, 21)
    assert (found["new"], found["other"]) == (70, 78)


def test_what_a_launch_costs_must_be_known(chain):
    graph = chain(("main", 10))
    with pytest.raises(UsageError, match="no launch"):
        insert_gpu_work(graph, [InsertedGpuWork(KERNEL, 8.0, after=0)])
    told = insert_gpu_work(graph, [InsertedGpuWork(KERNEL, 8.0, after=0)], launch_us=5.0, latency_us=3.0)
    assert starts(told) == {"t0": 0, "launch new": 10, "new": 13}


def test_cpu_work_is_not_launched_and_kernels_launch_nothing(pipeline):
    with pytest.raises(ValueError, match="add it with insert"):
        insert_gpu_work(pipeline(), [InsertedGpuWork(task("new", TaskKind.CPU, "main"), 8.0, after=0)])
    with pytest.raises(ValueError, match="runs on a GPU"):
        insert_gpu_work(pipeline(), [InsertedGpuWork(KERNEL, 8.0, after=1)])


def test_on_a_free_lane_what_is_new_is_free(pipeline):
    graph = insert_gpu_work(prioritise(pipeline(), [1], 5.0), [InsertedGpuWork(KERNEL, 8.0, after=0)])
    priorities = {one.name: p for one, p in zip(graph.tasks, graph.priorities.tolist(), strict=True)}
    assert (priorities["sgemm 0"], priorities["new"], priorities["sgemm 1"]) == (5, 0, 0)
    assert priorities["launch new"] != priorities["launch new"]
