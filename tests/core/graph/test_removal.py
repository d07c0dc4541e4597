from __future__ import annotations

from skyline.graph import (
    Cause,
    Dependency,
    Insertion,
    Phase,
    Task,
    TaskKind,
    WorkClass,
    insert,
    remove,
    select,
)
from skyline.simulate.engine import simulate

LAUNCH = Cause.LAUNCH


def test_remove_keeps_the_gap_and_passes_the_order_on(chain):
    # b on the GPU waited for the removed middle task; it must go on waiting for the one before it.
    graph = chain(("main", 10), ("main", 5), ("gpu", 1), gaps={0: 1, 1: 2}, waits=(Dependency(1, 2, LAUNCH),))
    without = remove(graph, [1])
    assert [task.name for task in without.tasks] == ["t0", "t2"]
    assert without.gaps[0] == 3
    assert simulate(without).starts[1] == 10


def test_remove_of_everything_before_leaves_no_dependency(chain):
    graph = chain(("main", 10), ("gpu", 1), waits=(Dependency(0, 1, LAUNCH),))
    assert len(remove(graph, [0]).structure.dependencies) == 0


def test_remove_adds_up_the_lags_of_a_chain(chain):
    graph = chain(
        ("a", 10), ("b", 5), ("c", 1), waits=(Dependency(0, 1, LAUNCH, 2.0), Dependency(1, 2, LAUNCH, 3.0))
    )
    assert simulate(remove(graph, [1])).starts[1] == 15


def test_without_its_kernel_a_launch_stays_unless_asked(pipeline):
    graph = pipeline(3)
    kernel = select(graph, name="sgemm 1")
    assert [task.name for task in remove(graph, kernel).tasks].count("cudaLaunchKernel") == 3
    bare = remove(graph, kernel, launches=True)
    assert [task.name for task in bare.tasks].count("cudaLaunchKernel") == 2
    assert len(bare) == 5
    # Kernels of 30 µs from 4 to 64, then the synchronisation of 2 µs.
    assert simulate(bare).makespan_us == 66


def test_a_synchronisation_waits_for_the_kernel_before_the_removed_one(pipeline):
    graph = pipeline(2)
    without = remove(graph, select(graph, name="sgemm 1"))
    waits = without.structure.incoming[-1]
    assert [without.tasks[one.source].name for one in waits] == ["sgemm 0"]
    assert simulate(without).starts[-1] == 34


def test_the_turnaround_of_a_stream_goes_with_its_kernel(chain, pipeline):
    graph = pipeline(2).with_times(gaps=[1.0, 2.0, 1.0, 2.0, 0.0])
    kernels = select(graph, kind=TaskKind.KERNEL)
    assert remove(graph, kernels[1:]).gaps.tolist() == [1, 2, 1, 0]
    launches = select(graph, kind=TaskKind.LAUNCH)
    assert remove(graph, launches[1:]).gaps.tolist() == [2, 2, 2, 0]
    assert remove(graph, launches[1:], keep_gaps=False).gaps.tolist() == [1, 2, 2, 0]


def test_the_gap_of_the_first_task_of_a_lane_is_nobodys(chain):
    graph = chain(("a", 1), ("b", 1), ("b", 1), gaps={0: 5, 1: 7})
    assert remove(graph, [1]).gaps.tolist() == [5, 0]


def test_the_next_task_of_a_lane_waits_for_what_concerns_the_whole_lane(chain):
    for cause, start in ((Cause.HAND_OFF, 10), (Cause.EVENT, 10), (Cause.SYNC, 10), (Cause.LAUNCH, 0)):
        graph = chain(("main", 10), ("other", 1), ("other", 1), waits=(Dependency(0, 1, cause),))
        assert simulate(remove(graph, [1])).starts.tolist() == [0, start]


def test_a_removed_synchronisation_waits_no_more(pipeline):
    graph = insert(
        pipeline(1),
        [Insertion(Task("next", TaskKind.CPU, WorkClass.OTHER, "main", Phase.OTHER, 0), 5, after=2)],
    )
    assert simulate(graph).starts[-1] == 36
    assert simulate(remove(graph, select(graph, kind=TaskKind.SYNC))).starts[-1] == 10


def test_a_long_run_of_tasks_is_removed_at_once(chain):
    work = [("main", 1.0), ("gpu", 1.0)] * 300 + [("main", 1.0)]
    waits = tuple(Dependency(index, index + 1, Cause.QUEUE, 0.5) for index in range(1, 599, 2))
    graph = chain(*work, waits=waits)
    left = remove(graph, select(graph, lane="main", where=lambda task: 0 < task.line < 600))
    assert len(left) == 302
    assert len(left.structure.dependencies) == 0


def test_removing_nothing_changes_nothing(chain):
    graph = chain(("main", 10))
    assert remove(graph, []) is graph
