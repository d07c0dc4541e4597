from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.compiled import Way, run_loops
from skyline.graph.graph import Cause, CyclicGraph, Dependency, Graph, Structure
from skyline.graph.task import TaskKind
from skyline.simulate.critical_path import critical_tasks
from skyline.simulate.engine import simulate
from skyline.simulate.shared import Resource, cpu_cores, simulate_shared


def on_cores(graph, cores, demand=1.0):
    return simulate_shared(graph, [cpu_cores(graph, cores, demand)])


def test_two_threads_on_one_core_take_twice_as_long(chain, way):
    assert on_cores(chain(("a", 10), ("b", 10)), 1).ends.tolist() == [20, 20]
    assert on_cores(chain(("a", 10), ("b", 10)), 2).ends.tolist() == [10, 10]


def test_who_stays_alone_is_as_quick_as_ever(chain, way):
    # Each has done 4 when the short one ends at 8; the long one then has 6 to go.
    assert on_cores(chain(("a", 10), ("b", 4)), 1).ends.tolist() == [14, 8]


def test_three_threads_on_two_cores(chain, way):
    timeline = on_cores(chain(("a", 10), ("b", 10), ("c", 10)), 2)
    assert timeline.ends.tolist() == pytest.approx([15, 15, 15])
    assert timeline.utilisation() == pytest.approx({"a": 1, "b": 1, "c": 1})


def test_untraced_time_needs_a_core_too(chain, way):
    timeline = on_cores(chain(("a", 2), ("b", 10), gaps={0: 8}), 1)
    assert timeline.ends.tolist() == [4, 20]
    assert timeline.freed.tolist() == [20, 20]


def test_an_operator_with_threads_of_its_own_asks_for_several_cores(chain, way):
    # Three cores asked, two there: at two thirds of the speed until the second ends.
    timeline = on_cores(chain(("a", 10), ("b", 4)), 2, demand=[2, 1])
    assert timeline.ends.tolist() == pytest.approx([12, 6])


def test_who_sleeps_takes_no_core(chain, way):
    assert on_cores(chain(("a", 10), ("b", 4)), 1, demand=[1, 0]).ends.tolist() == [10, 4]


def test_a_late_start_slows_down_only_from_then_on(chain, way):
    # b starts at 6; a has 4 left, which take 8; then b has 6 left.
    graph = chain(("g", 6), ("a", 10), ("b", 10), waits=(Dependency(0, 2, Cause.GIVEN),))
    timeline = simulate_shared(graph, [Resource("core", 1, [1, 2])])
    assert timeline.starts.tolist() == [0, 0, 6]
    assert timeline.ends.tolist() == [6, 14, 20]


def test_copies_share_a_link(chain, way):
    # Each would fill two thirds of the link: together they ask for 4/3 of it.
    graph = chain(("up", 6), ("down", 6), ("gpu", 100))
    link = Resource("PCIe", 24e9, [0, 1], demand=16e9)
    assert simulate_shared(graph, [link]).ends.tolist() == pytest.approx([8, 8, 100])


def test_two_resources_at_once(chain, way):
    graph = chain(("a", 10), ("b", 10), ("c", 6), ("d", 6))
    cores, link = Resource("cores", 1, [0, 1]), Resource("link", 1, [2, 3], demand=0.75)
    assert simulate_shared(graph, [cores, link]).ends.tolist() == pytest.approx([20, 20, 9, 9])


def test_a_task_that_moves_from_core_to_gap_frees_the_core(chain, way):
    graph = chain(("a", 4), ("b", 4), ("b", 1), gaps={0: 4, 1: 4})
    timeline = simulate_shared(graph, [Resource("core", 1, [0, 1, 2])])
    assert timeline.ends.tolist() == [8, 8, 13]


def test_gpu_work_needs_no_core(chain, way):
    made = chain(("main", 10), ("gpu", 10), ("other", 4))
    kinds = (TaskKind.LAUNCH, TaskKind.KERNEL, TaskKind.DATA)
    tasks = [replace(task, kind=kind) for task, kind in zip(made.tasks, kinds, strict=True)]
    assert on_cores(Graph(Structure(tasks), made.durations), 1).ends.tolist() == [14, 10, 8]


def test_the_critical_path_goes_through_what_was_slowed_down(chain, way):
    graph = chain(("a", 10), ("b", 4), ("a", 1))
    assert critical_tasks(on_cores(graph, 1)) == (0, 2)


def test_what_makes_no_sense_is_refused(chain):
    graph = chain(("a", 1), ("b", 1))
    for wrong in ([Resource("r", 0, [0])], [Resource("r", 1, [0], -1)], [Resource("r", 1, [0])] * 2):
        with pytest.raises(ValueError, match="r: "):
            simulate_shared(graph, wrong)
    with pytest.raises(ValueError, match="priorities"):
        simulate_shared(Graph(graph.structure, graph.durations, graph.gaps, [1, 1]), [])
    waits = (Dependency(0, 1, Cause.GIVEN), Dependency(1, 0, Cause.GIVEN))
    with pytest.raises(CyclicGraph):
        simulate_shared(chain(("a", 1), ("b", 1), waits=waits), [])


def test_nothing_takes_no_time(way):
    assert simulate_shared(Graph(Structure(()), ()), []).makespan_us == 0


@settings(deadline=None)
@given(st.data())
def test_where_there_is_enough_for_all_it_is_the_simulation(way, graphs, data):
    graph = data.draw(graphs())
    uneven = data.draw(st.floats(0.1, 10))
    graph = Graph(graph.structure, graph.durations * uneven, graph.gaps * uneven)
    demand = data.draw(st.floats(0, 1))
    shared, simulated = on_cores(graph, 3, demand), simulate(graph)
    assert shared.starts.tolist() == simulated.starts.tolist()
    assert shared.ends.tolist() == simulated.ends.tolist()
    assert shared.freed.tolist() == simulated.freed.tolist()


@settings(deadline=None)
@given(st.data())
def test_no_more_is_done_than_there_are_cores(way, graphs, data):
    graph = data.draw(graphs())
    cores = data.draw(st.floats(0.5, 3))
    everything = np.arange(len(graph))
    timeline = simulate_shared(graph, [Resource("cores", cores, everything, in_gaps=True)])
    assert timeline.makespan_us >= (graph.durations + graph.gaps).sum() / cores * (1 - 1e-9)
    assert np.all(timeline.ends - timeline.starts >= graph.durations - 1e-6)
    assert np.all(timeline.freed - timeline.ends >= graph.gaps - 1e-6)
    for dependency in graph.structure.dependencies:
        since = timeline.starts if dependency.from_start else timeline.ends
        assert timeline.starts[dependency.target] >= since[dependency.source] + dependency.lag_us - 1e-6


@settings(deadline=None)
@given(st.data())
def test_compiled_and_as_written_are_equal(graphs, data):
    pytest.importorskip("numba")
    graph = data.draw(graphs())
    cores = data.draw(st.floats(0.5, 3))
    found = []
    for how in (Way.AS_WRITTEN, Way.COMPILED):
        with run_loops(how):
            timeline = on_cores(graph, cores)
        found.append([column.tolist() for column in (timeline.starts, timeline.ends, timeline.freed)])
    assert found[0] == found[1]
