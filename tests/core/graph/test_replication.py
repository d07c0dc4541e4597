from __future__ import annotations

import pytest

from skyline.graph import Cause, CyclicGraph, Dependency, prioritise, replicate, select
from skyline.simulate.engine import simulate


def test_rounds_run_one_after_another(chain):
    graph = chain(("main", 10), ("main", 5), ("main", 1), gaps={0: 2})
    thrice = replicate(graph, [0, 1], 3)
    assert [task.name for task in thrice.tasks] == ["t0", "t1", "t0", "t1", "t0", "t1", "t2"]
    assert simulate(thrice).starts.tolist() == [0, 12, 17, 29, 34, 46, 51]


def test_kernels_are_launched_in_every_round_and_awaited_in_the_last(pipeline):
    graph = pipeline(2)
    twice = replicate(graph, select(graph, lane=("main", "stream 7"), name=("Launch", "gemm")), 2)
    timeline = simulate(twice)
    kernels = select(twice, on_gpu=True)
    assert timeline.starts[kernels].tolist() == [4, 34, 64, 94]
    assert timeline.makespan_us == 126
    assert [edge.source for edge in twice.structure.incoming[-1]] == [kernels[-1]]


def test_what_the_work_waited_for_outside_it_waits_for_once(chain):
    graph = chain(("loader", 50), ("main", 10), ("main", 1), waits=(Dependency(0, 1, Cause.LOADER),))
    twice = replicate(graph, [1], 2)
    assert len(twice.structure.dependencies) == 1
    assert simulate(twice).starts.tolist() == [0, 50, 60, 70]


def test_the_next_round_waits_for_the_thread_that_took_over(chain):
    # main works, autograd takes over and hands back to main: the next round begins behind that.
    graph = chain(
        ("main", 10),
        ("autograd", 20),
        ("main", 5),
        waits=(Dependency(0, 1, Cause.HAND_OFF), Dependency(1, 2, Cause.HAND_OFF)),
    )
    twice = replicate(graph, [0, 1], 2)
    starts = {
        (task.name, start) for task, start in zip(twice.tasks, simulate(twice).starts.tolist(), strict=True)
    }
    assert starts == {("t0", 0), ("t1", 10), ("t0", 30), ("t1", 40), ("t2", 60)}


def test_copies_can_stand_elsewhere(chain):
    # Recomputing: the work of task 0 is done again before task 2.
    graph = chain(("main", 10), ("main", 5), ("main", 1))
    again = replicate(graph, [0], 2, before=[2])
    assert [task.name for task in again.tasks] == ["t0", "t1", "t0", "t2"]


def test_copies_keep_their_priorities(chain):
    graph = prioritise(chain(("link", 10), ("link", 5)), [1], 3.0)
    assert replicate(graph, [0, 1], 2).priorities.tolist() == [0, 3, 0, 3]


def test_work_that_lies_between_has_to_be_chosen_too(chain):
    graph = chain(
        ("a", 1), ("b", 1), ("a", 1), waits=(Dependency(0, 1, Cause.SYNC), Dependency(1, 2, Cause.SYNC))
    )
    assert simulate(replicate(graph, [0, 1, 2], 2)).makespan_us == 6
    with pytest.raises(CyclicGraph):
        simulate(replicate(graph, [0, 2], 2))


def test_less_than_once_is_an_error(chain):
    with pytest.raises(ValueError, match="less than 1"):
        replicate(chain(("main", 10)), [0], 0)
