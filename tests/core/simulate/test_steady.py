from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.replication import stitch
from skyline.simulate.engine import _repetitions, simulate, steady_step_ms


def test_the_cpu_works_on_the_next_step_while_the_gpu_finishes_this_one(chain, way):
    # One step alone: launched until 4, computed from 3 to 13. In a run the GPU is never idle: 10 per step.
    graph = chain(("main", 4), ("gpu", 10), waits=(Dependency(0, 1, Cause.LAUNCH, 3.0, from_start=True),))
    assert simulate(graph).makespan_us == 13
    assert steady_step_ms(graph) == pytest.approx(0.010)


def test_a_step_that_waits_for_its_gpu_takes_as_long_in_a_run(chain, way):
    graph = chain(
        ("main", 4),
        ("gpu", 10),
        ("main", 1),
        waits=(Dependency(0, 1, Cause.LAUNCH, 3.0, from_start=True), Dependency(1, 2, Cause.SYNC)),
    )
    assert steady_step_ms(graph) == pytest.approx(0.014)


def test_lanes_that_do_not_wait_for_one_another_take_what_the_slowest_takes(chain, way):
    assert steady_step_ms(chain(("a", 3), ("b", 7), gaps={1: 1})) == pytest.approx(0.008)


@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_lanes_that_are_ahead_by_turns_take_the_mean_in_any_unit(chain, way, unit):
    # Each lane starts its second task some time after the other began: repetitions take 5 and 3 by turns.
    turns = chain(
        ("a", 0),
        ("b", 0),
        ("a", unit),
        ("b", unit),
        waits=(Dependency(1, 2, Cause.SYNC, 4 * unit), Dependency(0, 3, Cause.SYNC, 2 * unit)),
    )
    assert simulate(stitch(turns, 2)).makespan_us == pytest.approx(8 * unit)
    assert steady_step_ms(turns, at_most=40) == pytest.approx(0.004 * unit)


def test_a_lane_without_work_does_not_keep_the_others_from_being_steady(chain, way):
    assert _repetitions(chain(("a", 3), ("b", 0)), at_most=50) == [3, 6]


def test_nothing_takes_no_time(way):
    assert steady_step_ms(Graph(Structure(()), ())) == 0


def test_a_schedule_of_ones_own_is_kept(chain, way):
    graph = chain(("net", 4), ("net", 1))
    graph = Graph(graph.structure, graph.durations, graph.gaps, [1, 2])
    assert steady_step_ms(graph) == pytest.approx(0.005)
    assert steady_step_ms(stitch(graph, 3)) == pytest.approx(0.005)


@settings(max_examples=50)
@given(st.data())
def test_it_is_the_later_steps_of_the_stitched_graph(way, graphs, data):
    graph = data.draw(graphs(most=6))
    repeated = stitch(graph, 40 * len(graph.iterations))
    freed = simulate(repeated).freed.reshape(40, len(graph)).max(axis=1)
    mean = (freed[-1] - freed[19]) / 20 / len(graph.iterations) / 1e3
    assert steady_step_ms(graph, at_most=40) == pytest.approx(mean, abs=1e-9)
