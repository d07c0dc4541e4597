from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.compiled import Way, run_loops
from skyline.graph.graph import Cause, CyclicGraph, Dependency, Graph, Structure
from skyline.simulate.critical_path import critical_tasks
from skyline.simulate.engine import simulate
from skyline.simulate.scheduling import schedule

NAN = float("nan")


def with_priorities(graph, priorities):
    return Graph(graph.structure, graph.durations, graph.gaps, priorities)


def test_the_most_important_of_the_ready_tasks_goes_first(chain, way):
    # A gradient is ready every 2; that of the first layer comes last and is needed first.
    graph = chain(
        ("gpu", 2),
        ("gpu", 2),
        ("gpu", 2),
        ("net", 5),
        ("net", 5),
        ("net", 5),
        waits=tuple(Dependency(i, i + 3, Cause.COLLECTIVE) for i in range(3)),
    )
    assert simulate(graph).starts[3:].tolist() == [2, 7, 12]
    timeline = simulate(with_priorities(graph, [NAN, NAN, NAN, 1, 2, 3]))
    # The link is busy with the first message from 2 to 7; by then the third is ready and overtakes the second.
    assert timeline.starts[3:].tolist() == [2, 12, 7]
    assert critical_tasks(timeline) == (0, 3, 5, 4)


def test_a_free_lane_does_not_wait_for_what_is_more_important(chain, way):
    graph = chain(("main", 1), ("net", 4), ("net", 1), waits=(Dependency(0, 2, Cause.GIVEN),))
    timeline = simulate(with_priorities(graph, [NAN, 0, 9]))
    assert timeline.starts.tolist() == [0, 0, 4]


def test_a_lane_with_two_servers_runs_two_tasks_at_once(chain, way):
    graph = chain(("pool", 4), ("pool", 3), ("pool", 2), ("pool", 1), gaps={1: 1})
    timeline = schedule(graph, servers={"pool": 2})
    # The second task's gap holds its server until 4.
    assert timeline.starts.tolist() == [0, 0, 4, 4]
    assert timeline.makespan_us == 6
    assert timeline.before.tolist() in ([-1, -1, 0, 1], [-1, -1, 1, 0])


def test_tasks_keep_their_order_on_a_lane_with_servers(chain, way):
    graph = chain(("main", 5), ("pool", 1), ("pool", 1), waits=(Dependency(0, 1, Cause.GIVEN),))
    assert schedule(graph, servers={"pool": 2}).starts.tolist() == [0, 5, 5]
    assert schedule(graph, servers={"pool": 2}, any_order=["pool"]).starts.tolist() == [0, 5, 0]


def test_a_rule_of_ones_own_decides(chain):
    graph = chain(("a", 3), ("b", 2), ("b", 4))
    seen = []

    def longest(ready, could):
        seen.append((tuple(ready), tuple(could)))
        return max(range(len(ready)), key=lambda place: graph.durations[ready[place]])

    timeline = schedule(graph, any_order=["b"], pick=longest)
    assert timeline.starts.tolist() == [0, 4, 0]
    assert seen[0] == ((0, 1, 2), (0, 0, 0))
    assert timeline.order.tolist() == [2, 0, 1]


def test_what_waits_for_itself_is_refused(chain, way):
    waits = (Dependency(0, 1, Cause.GIVEN), Dependency(1, 0, Cause.GIVEN))
    with pytest.raises(CyclicGraph):
        schedule(chain(("a", 1), ("b", 1), waits=waits))


def test_a_lane_has_at_least_one_server(chain):
    with pytest.raises(ValueError, match="0 servers"):
        schedule(chain(("a", 1)), servers={"a": 0})


def test_nothing_takes_no_time(way):
    assert schedule(Graph(Structure(()), ())).makespan_us == 0


@settings(max_examples=50)
@given(st.data())
def test_where_every_lane_keeps_its_order_it_is_the_simulation(way, graphs, data):
    graph = data.draw(graphs())
    scheduled, simulated = schedule(graph), simulate(graph)
    assert scheduled.starts.tolist() == simulated.starts.tolist()
    assert scheduled.ends.tolist() == simulated.ends.tolist()
    assert scheduled.before.tolist() == graph.structure.before.tolist()


@given(st.data())
def test_a_rule_chooses_between_lanes_and_changes_nothing_where_every_lane_keeps_its_order(graphs, data):
    graph = data.draw(graphs())
    picked, simulated = (
        schedule(graph, pick=lambda ready, could: data.draw(st.integers(0, len(ready) - 1))),
        simulate(graph),
    )
    assert picked.starts.tolist() == simulated.starts.tolist()
    assert picked.ends.tolist() == simulated.ends.tolist()
    assert picked.before.tolist() == graph.structure.before.tolist()


@settings(max_examples=50)
@given(st.data())
def test_a_schedule_obeys_lanes_and_dependencies(way, graphs, data):
    graph = data.draw(graphs())
    slots = {lane: data.draw(st.integers(1, 3)) for lane in "abc"}
    opened = data.draw(st.sets(st.sampled_from("abc")))
    urgency = data.draw(st.lists(st.integers(0, 3), min_size=len(graph), max_size=len(graph)))
    lane = [graph.tasks[index].lane for index in range(len(graph))]
    priorities = [value if lane[i] in opened else NAN for i, value in enumerate(urgency)]
    timeline = schedule(with_priorities(graph, priorities), servers=slots)
    for dependency in graph.structure.dependencies:
        since = timeline.starts if dependency.from_start else timeline.ends
        assert timeline.starts[dependency.target] >= since[dependency.source] + dependency.lag_us
    for name in "abc":
        own = [index for index in range(len(graph)) if lane[index] == name]
        for index in own:
            moment = timeline.starts[index]
            assert sum(timeline.starts[i] <= moment < timeline.freed[i] for i in own) <= slots[name]
        if name not in opened:
            assert sorted(timeline.starts[own]) == timeline.starts[own].tolist()


@pytest.mark.xdist_group("numba")
@given(st.data())
def test_compiled_and_as_written_are_equal(graphs, data):
    pytest.importorskip("numba")
    graph = data.draw(graphs(lanes="ab"))
    priorities = data.draw(st.lists(st.integers(0, 3), min_size=len(graph), max_size=len(graph)))
    found = []
    for how in (Way.AS_WRITTEN, Way.COMPILED):
        with run_loops(how):
            timeline = schedule(with_priorities(graph, priorities), servers={"b": 2})
        found.append([column.tolist() for column in (timeline.starts, timeline.before, timeline.order)])
    assert found[0] == found[1]
