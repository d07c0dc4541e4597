from __future__ import annotations

import pytest

from skyline.graph.graph import Cause, CyclicGraph, Dependency
from skyline.graph.removal import remove
from skyline.graph.stitch import stitch
from skyline.graph.task import Task, TaskKind, WorkClass, work_class
from skyline.simulate.engine import simulate
from skyline.trace.phase import Phase

LAUNCH = Cause.LAUNCH


def test_select_finds_tasks_by_what_they_are(chain):
    graph = chain(("main", 1), ("gpu", 2), ("main", 3))
    assert graph.select(lambda task: task.lane == "main") == (0, 2)


def test_scale_leaves_the_original_alone_and_shares_its_structure(chain):
    graph = chain(("main", 10), ("main", 20), gaps={0: 4})
    scaled = graph.scale([0], 0.5)
    assert (scaled.durations, scaled.gaps) == ((5, 20), (4, 0))
    assert graph.durations == (10, 20)
    assert scaled.structure is graph.structure


def test_scale_reaches_gaps_when_asked(chain):
    assert chain(("main", 10), gaps={0: 4}).scale([0], 0.5, gaps=True).gaps == (2,)


def test_remove_keeps_the_gap_and_passes_the_order_on(chain):
    # b on the GPU waited for the removed middle task; it must go on waiting for the one before it.
    graph = chain(("main", 10), ("main", 5), ("gpu", 1), gaps={0: 1, 1: 2}, waits=(Dependency(1, 2, LAUNCH),))
    without = remove(graph, [1])
    assert [task.name for task in without.tasks] == ["t0", "t2"]
    assert without.gaps[0] == 3
    assert simulate(without).starts[1] == 10


def test_remove_of_everything_before_leaves_no_dependency(chain):
    graph = chain(("main", 10), ("gpu", 1), waits=(Dependency(0, 1, LAUNCH),))
    assert remove(graph, [0]).structure.dependencies == ()


def test_remove_adds_up_the_lags_of_a_chain(chain):
    graph = chain(
        ("a", 10), ("b", 5), ("c", 1), waits=(Dependency(0, 1, LAUNCH, 2.0), Dependency(1, 2, LAUNCH, 3.0))
    )
    assert simulate(remove(graph, [1])).starts[1] == 15


def test_insert_shifts_what_comes_after_it(chain):
    graph = chain(("main", 10), ("gpu", 4), waits=(Dependency(0, 1, LAUNCH),))
    task = Task("new", TaskKind.CPU, WorkClass.OTHER, "main", Phase.FORWARD, 0)
    grown = graph.insert(task, 3, at=0)
    assert simulate(grown).starts.tolist() == [0, 3, 13]


def test_relane_lets_work_overlap(chain):
    graph = chain(("main", 10), ("main", 10))
    assert simulate(graph).makespan_us == 20
    assert simulate(graph.relane({0: "worker"})).makespan_us == 10
    assert simulate(graph.relane({0: "worker"}, [Dependency(0, 1, Cause.LOADER)])).makespan_us == 20


def test_dependencies_against_the_lane_order_are_an_error(chain):
    with pytest.raises(CyclicGraph, match="t0 on main"):
        chain(("main", 1), ("main", 1), waits=(Dependency(1, 0, LAUNCH),))


def test_stitch_repeats_whole_iterations(chain):
    graph = chain(("main", 10), ("gpu", 4), waits=(Dependency(0, 1, LAUNCH),))
    stitched = stitch(graph, 3)
    assert stitched.iterations == (0, 1, 2)
    assert simulate(stitched).ends[5] == 34


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::addmm", WorkClass.MATMUL),
        ("AddmmBackward0", WorkClass.MATMUL),
        ("aten::linear", WorkClass.MATMUL),
        ("ampere_sgemm_128x64_nn", WorkClass.MATMUL),
        ("ConvolutionBackward0", WorkClass.CONVOLUTION),
        ("aten::scaled_dot_product_attention", WorkClass.ATTENTION),
        ("aten::relu", WorkClass.OTHER),
        ("aten::add_", WorkClass.OTHER),
    ],
)
def test_work_is_classed_by_name(name, expected):
    assert work_class(name) is expected
