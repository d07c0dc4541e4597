from __future__ import annotations

import numpy as np
import pytest

from skyline.graph import (
    Cause,
    Dependency,
    add_dependencies,
    cut_dependencies,
    in_recorded_order,
    prioritise,
    scale,
    select,
)
from skyline.simulate.engine import simulate


def test_dependencies_come_and_go(chain):
    graph = chain(("a", 10), ("b", 10), ("c", 10))
    both = add_dependencies(graph, [Dependency(0, 1, Cause.GIVEN), Dependency(1, 2, Cause.SYNC, 5.0)])
    assert simulate(both).makespan_us == 35
    assert simulate(cut_dependencies(both, cause=Cause.SYNC)).makespan_us == 20
    assert simulate(cut_dependencies(both, source=[0])).makespan_us == 25
    assert simulate(cut_dependencies(both, source=[0], target=[2])).makespan_us == 35
    assert simulate(cut_dependencies(both)).makespan_us == 10
    assert len(graph.structure.dependencies) == 0


def test_dependencies_name_tasks_that_there_are(chain):
    with pytest.raises(IndexError, match="tasks 0 to 0"):
        add_dependencies(chain(("a", 10)), [Dependency(0, 1, Cause.GIVEN)])


def test_the_dearest_goes_first_on_a_freed_lane(chain):
    # Three gradients are ready at 0; the last is needed first.
    graph = chain(
        ("link", 10), ("link", 10), ("link", 10), ("main", 5), waits=(Dependency(2, 3, Cause.SYNC),)
    )
    assert simulate(graph).starts.tolist() == [0, 10, 20, 30]
    urgent = prioritise(graph, [2], 1.0)
    assert urgent.priorities.tolist()[:3] == [0, 0, 1]
    assert np.isnan(urgent.priorities[3])
    assert simulate(urgent).starts.tolist() == [10, 20, 0, 10]
    assert simulate(in_recorded_order(urgent)).starts.tolist() == [0, 10, 20, 30]
    assert urgent.structure is graph.structure


def test_priorities_go_along(chain):
    graph = prioritise(chain(("link", 10), ("link", 10), ("main", 5)), [1], 1.0)
    assert scale(graph, [0], 2.0).priorities is graph.priorities


def test_factors_one_by_one(chain):
    graph = chain(("main", 10), ("gpu", 10), ("main", 10), gaps={2: 4})
    assert scale(graph, [0, 2], [0.5, 2.0], gaps=True).durations.tolist() == [5, 10, 20]
    assert scale(graph, [0, 2], [0.5, 2.0], gaps=True).gaps.tolist() == [0, 0, 8]
    assert scale(graph, select(graph, lane="main"), 0.5).gaps is graph.gaps
    assert scale(graph, np.array([False, True, False]), 3).durations.tolist() == [10, 30, 10]
    for factor in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            scale(graph, [0], factor)
