from __future__ import annotations

from dataclasses import asdict, astuple, replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.compiled import Way, run_loops
from skyline.graph.build import build
from skyline.graph.dependency import CyclicGraph
from skyline.graph.graph import Cause, Dependency, Graph, Structure, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.simulate.critical_path import critical_path, critical_tasks
from skyline.simulate.engine import replay_error, run, run_few, simulate


def test_a_lane_runs_one_task_after_another_with_gaps_between(chain):
    timeline = simulate(chain(("main", 10), ("main", 5), gaps={0: 3, 1: 2}))
    assert timeline.starts.tolist() == [0, 13]
    assert timeline.makespan_us == 20


def test_a_diamond_solved_by_hand(chain):
    # a(3) -> b(4) on lane y, a -> c(2) on lane x after a, d(1) on x waits for both.
    graph = chain(
        ("x", 3),
        ("y", 4),
        ("x", 2),
        ("x", 1),
        waits=(Dependency(0, 1, Cause.LAUNCH), Dependency(1, 3, Cause.SYNC)),
    )
    timeline = simulate(graph)
    assert timeline.starts.tolist() == [0, 3, 3, 7]
    assert timeline.makespan_us == 8
    assert critical_tasks(timeline) == (0, 1, 3)


def test_a_launch_is_counted_from_its_start(chain):
    graph = chain(("main", 10), ("gpu", 2), waits=(Dependency(0, 1, Cause.LAUNCH, 4.0, from_start=True),))
    assert simulate(graph).starts.tolist() == [0, 4]


def test_an_empty_graph_takes_no_time():
    timeline = simulate(Graph(Structure(()), (), ()))
    assert timeline.makespan_us == 0
    assert critical_path(timeline).idle == 1


def test_a_gpu_bound_step_follows_its_kernels_and_a_host_bound_one_does_not(recorded_gpu):
    from skyline.graph.build import build

    bound = build(recorded_gpu(kernel_us=500))
    free = build(recorded_gpu(kernel_us=1))
    for graph, expected in ((bound, 0.5), (free, 1.0)):
        halved = scale(graph, select(graph, kind=TaskKind.KERNEL), 0.5)
        ratio = simulate(halved).iteration_ms("main") / simulate(graph).iteration_ms("main")
        assert ratio == pytest.approx(expected, abs=0.02)


def test_replay_of_what_was_recorded(profile, recorded_gpu):
    assert replay_error(build(profile.trace), profile.trace) == pytest.approx(0, abs=1e-9)
    trace = recorded_gpu()
    assert replay_error(build(trace), trace) < 0.01


def test_an_iteration_ends_with_the_scripts_own_lane(recorded_gpu):
    # Nothing waits for the GPU, which works on when the script is done.
    trace = recorded_gpu(iterations=1, kernel_us=500)
    calls = tuple(one for one in trace.records if one.name != "cudaStreamSynchronize")
    mark = replace(trace.iterations[0], end_us=max(one.end_us for one in calls if one.lane == "main"))
    trace = replace(trace, records=calls, iterations=(mark,))
    assert simulate(build(trace)).makespan_us > 2 * mark.end_us
    assert replay_error(build(trace), trace) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("cause", "billed"), [(Cause.LAUNCH, "launch"), (Cause.SYNC, "idle")])
def test_time_between_two_tasks_is_billed_to_what_links_them(chain, cause, billed):
    timeline = simulate(chain(("main", 4), ("gpu", 2), waits=(Dependency(0, 1, cause, 3.0),)))
    shares = asdict(critical_path(timeline))
    assert {name: share for name, share in shares.items() if share} == pytest.approx(
        {"cpu": 6 / 9, billed: 3 / 9}
    )


def test_the_critical_path_of_a_gpu_bound_step_is_the_gpu(recorded_gpu):
    from skyline.graph.build import build

    shares = critical_path(simulate(build(recorded_gpu(kernel_us=5000))))
    assert shares.gpu_compute > 0.95


def test_the_critical_path_of_a_cpu_step_is_loading_and_computing(profile):
    from skyline.graph.build import build

    shares = critical_path(simulate(build(profile.trace)))
    assert (shares.data, shares.cpu) == pytest.approx((2 / 12, 10 / 12))


@settings(max_examples=50)
@given(st.data())
def test_bounds_of_the_makespan(way, graphs, data):
    graph = data.draw(graphs())
    timeline = simulate(graph)
    for lane in graph.structure.lanes:
        chosen = select(graph, lane=lane)
        assert timeline.makespan_us >= sum(graph.durations[i] + graph.gaps[i] for i in chosen) - 1e-9
    for dependency in graph.structure.dependencies:
        since = timeline.starts if dependency.from_start else timeline.ends
        assert timeline.starts[dependency.target] >= since[dependency.source] + dependency.lag_us - 1e-9


@settings(max_examples=50)
@given(st.data())
def test_the_critical_path_explains_the_whole_makespan(way, graphs, data):
    graph = data.draw(graphs())
    timeline = simulate(graph)
    chain = critical_tasks(timeline)
    assert timeline.starts[chain[0]] == 0
    assert sum(astuple(critical_path(timeline))) == pytest.approx(1.0)


@settings(max_examples=50)
@given(st.data())
def test_less_work_never_takes_longer(way, graphs, data):
    graph = data.draw(graphs())
    index = data.draw(st.integers(0, len(graph.tasks) - 1))
    shorter = scale(graph, [index], data.draw(st.floats(0, 1)), gaps=True)
    assert simulate(shorter).makespan_us <= simulate(graph).makespan_us + 1e-9


@pytest.mark.xdist_group("numba")
@given(st.data())
def test_small_graphs_arrays_and_compiled_code_agree_to_the_last_bit(graphs, data):
    graph = data.draw(graphs(backward=True))
    uneven = data.draw(st.floats(0.001, 1000))
    durations, gaps = graph.durations * uneven, graph.gaps / uneven
    structure = graph.structure
    try:
        few = run_few(structure.visits, len(structure.lanes), durations, gaps)
    except CyclicGraph:
        return
    for how in (Way.AS_WRITTEN, Way.COMPILED) if find_spec("numba") else (Way.AS_WRITTEN,):
        with run_loops(how):
            starts, ends = run(Graph(structure, durations, gaps), np.zeros(len(structure.lanes)))
        assert (starts.tolist(), ends.tolist()) == (few[0].tolist(), few[1].tolist())


def test_iterations_of_less_than_a_microsecond_count_too(profile):
    trace = profile.trace
    short = tuple(replace(mark, end_us=mark.start_us + 0.5) for mark in trace.iterations)
    assert replay_error(build(trace), replace(trace, iterations=short)) > 1
