from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.graph.graph import Cause, Dependency, Graph
from skyline.simulate.critical_path import critical_tasks
from skyline.simulate.engine import simulate
from skyline.simulate.shared import cpu_cores, simulate_shared
from skyline.simulate.slack import slack_us


def test_slack_of_a_diamond(chain, way):
    # The branch over y takes 4, the one over x takes 2: the latter may be two later.
    graph = chain(
        ("x", 3),
        ("y", 4),
        ("x", 2),
        ("x", 1),
        waits=(Dependency(0, 1, Cause.LAUNCH), Dependency(1, 3, Cause.SYNC)),
    )
    assert slack_us(simulate(graph)).tolist() == [0, 0, 2, 0]


def test_slack_counts_lags_gaps_and_starts(chain, way):
    graph = chain(
        ("main", 10),
        ("gpu", 2),
        ("main", 5),
        gaps={0: 3},
        waits=(Dependency(0, 1, Cause.LAUNCH, 4.0, from_start=True),),
    )
    # The kernel runs from 4 to 6 and may end at 18; its launch holds the main thread and has no time to lose.
    assert slack_us(simulate(graph)).tolist() == [0, 12, 0]


def test_work_on_shared_cores_has_the_slack_of_the_slowed_run(chain, way):
    graph = chain(("a", 10), ("b", 4))
    timeline = simulate_shared(graph, [cpu_cores(graph, 1)])
    assert slack_us(timeline).tolist() == [0, 6]


@settings(deadline=None)
@given(st.data())
def test_a_task_may_be_late_by_its_slack_and_no_more(way, graphs, data):
    graph = data.draw(graphs())
    timeline = simulate(graph)
    slack = slack_us(timeline)
    assert np.all(slack[list(critical_tasks(timeline))] == 0)
    index = data.draw(st.integers(0, len(graph) - 1))
    for late, longer in ((slack[index], 0), (slack[index] + 1, 1)):
        # A task of another lane that ends so late that this one starts then.
        starts = timeline.starts[index] + late
        held = _held_until(graph, index, starts)
        assert simulate(held).makespan_us == pytest.approx(timeline.makespan_us + longer)


def _held_until(graph, index, moment):
    from dataclasses import replace

    from skyline.graph.graph import Structure

    brake = replace(graph.tasks[index], lane="brake")
    return Graph(
        Structure(
            [*graph.tasks, brake],
            [*graph.structure.dependencies, Dependency(len(graph), index, Cause.GIVEN)],
        ),
        [*graph.durations, moment],
        [*graph.gaps, 0.0],
    )
