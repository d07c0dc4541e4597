"""Properties of every graph, however it is changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.graph import (
    Cause,
    Insertion,
    Phase,
    Task,
    TaskKind,
    WorkClass,
    coalesce,
    insert,
    prioritise,
    remove,
    replicate,
    scale,
    select,
    stitch,
)
from skyline.simulate.critical_path import critical_tasks
from skyline.simulate.engine import simulate


def some_of(data, graph):
    return data.draw(st.lists(st.integers(0, len(graph) - 1), unique=True))


def assert_alike(first, second):
    """The same tasks at the same times."""
    assert tuple(first.tasks) == tuple(second.tasks)
    ours, theirs = simulate(first), simulate(second)
    assert np.asarray(ours.starts) == pytest.approx(np.asarray(theirs.starts))
    assert np.asarray(ours.ends) == pytest.approx(np.asarray(theirs.ends))


@given(st.data())
def test_scaling_by_one_changes_nothing(graphs, data):
    graph = data.draw(graphs())
    assert_alike(scale(graph, some_of(data, graph), 1.0, gaps=True), graph)


@given(st.data())
def test_what_is_inserted_and_removed_was_never_there(graphs, data):
    graph = data.draw(graphs())
    place = st.integers(-1, len(graph) - 1)
    new = [
        Insertion(
            Task("new", TaskKind.CPU, WorkClass.OTHER, data.draw(st.sampled_from("abcd")), Phase.OTHER, 0),
            data.draw(st.integers(0, 9)),
            data.draw(place),
            data.draw(st.integers(0, 9)),
        )
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    grown = insert(graph, new)
    assert_alike(remove(grown, select(grown, name="new"), keep_gaps=False), graph)


@given(st.data())
def test_one_round_is_the_work_itself(graphs, data):
    graph = data.draw(graphs())
    assert_alike(replicate(graph, some_of(data, graph), 1), graph)


@given(st.data())
def test_rounds_of_the_whole_are_stitched_iterations(graphs, data):
    graph = data.draw(graphs())
    rounds = data.draw(st.integers(1, 3))
    whole = simulate(replicate(graph, select(graph), rounds))
    assert whole.makespan_us == pytest.approx(simulate(stitch(graph, rounds)).makespan_us)


@given(st.data())
def test_merging_like_neighbours_keeps_the_time_of_every_lane(graphs, data):
    graph = data.draw(graphs())
    small = coalesce(graph, [graph.tasks.iteration])
    assert len(small) <= len(graph)
    assert simulate(small).makespan_us == pytest.approx(simulate(graph).makespan_us)
    assert sum(task.count for task in small.tasks) == len(graph)


@given(st.data())
def test_removing_what_takes_no_time_moves_nobody(graphs, data):
    graph = data.draw(graphs(gaps=False, lags=False, causes=(Cause.HAND_OFF, Cause.EVENT)))
    gone = some_of(data, graph)
    idle = scale(graph, gone, 0.0)
    stay = np.setdiff1d(np.arange(len(graph)), gone)
    without = remove(idle, gone)
    assert np.asarray(simulate(without).starts).tolist() == np.asarray(simulate(idle).starts)[stay].tolist()


@given(st.data())
def test_work_that_is_removed_never_makes_the_rest_later(graphs, data):
    graph = data.draw(graphs(gaps=False, lags=False))
    gone = some_of(data, graph)
    assert simulate(remove(graph, gone)).makespan_us <= simulate(graph).makespan_us


@given(st.data())
def test_the_makespan_is_no_less_than_any_lane_or_chain(graphs, data):
    graph = data.draw(graphs())
    timeline = simulate(graph)
    for lane in graph.structure.lanes:
        chosen = select(graph, lane=lane)
        assert timeline.makespan_us >= graph.durations[chosen].sum() + graph.gaps[chosen].sum() - 1e-9
    chain = critical_tasks(timeline)
    ends = np.asarray(timeline.ends)[np.asarray(chain)]
    assert timeline.makespan_us == pytest.approx(max(ends + graph.gaps[np.asarray(chain)]))


@given(st.data())
def test_less_work_never_takes_longer(graphs, data):
    graph = data.draw(graphs())
    shorter = scale(graph, some_of(data, graph), data.draw(st.floats(0, 1)), gaps=data.draw(st.booleans()))
    assert simulate(shorter).makespan_us <= simulate(graph).makespan_us + 1e-9


@given(st.data())
def test_ten_changes_of_one_graph_leave_it_alone(graphs, data):
    graph = data.draw(graphs())
    before = (
        tuple(graph.tasks),
        graph.durations.tolist(),
        graph.gaps.tolist(),
        tuple(graph.structure.dependencies),
    )
    chosen = some_of(data, graph)
    for changed in (
        scale(graph, chosen, 0.5),
        remove(graph, chosen),
        replicate(graph, select(graph), 2),
        coalesce(graph),
    ):
        simulate(changed)
    assert before == (
        tuple(graph.tasks),
        graph.durations.tolist(),
        graph.gaps.tolist(),
        tuple(graph.structure.dependencies),
    )


def _grow(graph, chosen):
    task = Task("new", TaskKind.CPU, WorkClass.OTHER, "d", Phase.OTHER, 0)
    return insert(graph, [Insertion(task, 1.0, int(index)) for index in chosen])


CHANGES = {
    "scale": lambda graph, chosen: scale(graph, chosen, 0.5, gaps=True),
    "insert": _grow,
    "remove": lambda graph, chosen: remove(graph, chosen[: len(graph) - 1]),
    "replicate": lambda graph, chosen: replicate(graph, select(graph), 2),
    "prioritise": lambda graph, chosen: prioritise(graph, chosen, 1.0),
    "coalesce": lambda graph, chosen: coalesce(graph, [graph.tasks.kind]),
}


@given(st.data())
def test_changes_can_follow_one_another(graphs, data):
    graph = data.draw(graphs(most=6))
    for name in data.draw(st.lists(st.sampled_from(sorted(CHANGES)), max_size=4)):
        graph = CHANGES[name](graph, some_of(data, graph))
        assert len(graph.durations) == len(graph.gaps) == len(graph.tasks) == len(graph)
        assert graph.priorities is None or len(graph.priorities) == len(graph)
    timeline = simulate(graph)
    assert timeline.makespan_us >= max(np.bincount(graph.tasks.lane, graph.durations + graph.gaps)) - 1e-6
    starts, ends = np.asarray(timeline.starts), np.asarray(timeline.ends)
    for edge in graph.structure.dependencies:
        since = starts if edge.from_start else ends
        assert starts[edge.target] >= since[edge.source] + edge.lag_us - 1e-6
