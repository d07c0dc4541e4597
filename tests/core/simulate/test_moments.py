from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.graph.graph import Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.simulate.critical_path import critical_path
from skyline.simulate.engine import simulate
from skyline.simulate.moments import moments_us
from skyline.trace.phase import Phase


def timeline(*spans):
    """Tasks given by lane, begin and end; those of a lane in order."""
    tasks, durations, gaps = [], [], []
    free: dict[str, float] = {}
    for lane, begin, end in spans:
        # Time before a task is a task of its own, on a lane that nobody asks about.
        before = begin - free.get(lane, 0.0)
        if before:
            tasks.append(Task("pause", TaskKind.CPU, WorkClass.OTHER, lane, Phase.OTHER, 0))
            durations.append(before)
            gaps.append(0.0)
        tasks.append(Task("work", TaskKind.CPU, WorkClass.OTHER, lane, Phase.FORWARD, 0))
        durations.append(end - begin)
        gaps.append(0.0)
        free[lane] = end
    return simulate(Graph(Structure(tasks), durations, gaps))


def on(made, *lanes):
    tasks = made.graph.tasks
    return [np.flatnonzero([task.lane == lane and task.name == "work" for task in tasks]) for lane in lanes]


def test_a_moment_is_of_the_first_group_that_is_busy() -> None:
    made = timeline(("gpu", 2, 4), ("cpu", 0, 3), ("cpu", 3, 6), ("other", 1, 9))
    owned = moments_us(made, on(made, "gpu", "cpu", "other"))
    assert owned[on(made, "gpu")[0]].tolist() == [2]
    assert owned[on(made, "cpu")[0]].tolist() == [2, 2]
    assert owned[on(made, "other")[0]].tolist() == [3]


def test_only_what_lies_between_two_times_counts() -> None:
    made = timeline(("gpu", 2, 4), ("cpu", 0, 6))
    owned = moments_us(made, on(made, "gpu", "cpu"), 3, 5)
    assert owned.sum() == 2
    assert owned[on(made, "gpu")[0]].tolist() == [1]


def test_of_two_in_a_group_the_elder_has_the_moment() -> None:
    made = timeline(("a", 0, 5), ("b", 3, 8))
    owned = moments_us(made, [np.concatenate(on(made, "a", "b"))])
    assert owned[on(made, "a")[0]].tolist() == [5]
    assert owned[on(made, "b")[0]].tolist() == [3]


def test_nothing_is_of_nobody() -> None:
    made = timeline(("a", 0, 5))
    assert not moments_us(made, []).any()
    assert not moments_us(made, [np.empty(0, np.int64)]).any()


@given(st.data())
def test_every_moment_is_counted_at_most_once(graphs, data) -> None:
    made = simulate(data.draw(graphs()))
    lanes = made.graph.tasks.lane
    groups = [np.flatnonzero(lanes == code) for code in range(len(made.graph.tasks.lanes))]
    begin, end = sorted((data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))))
    owned = moments_us(made, groups, begin, end)
    # The same by asking at every half: all times are whole numbers.
    expected = np.zeros(len(lanes))
    for moment in np.arange(begin, end) + 0.5:
        for group in groups:
            busy = group[(made.starts[group] <= moment) & (moment < made.freed[group])]
            if len(busy):
                expected[busy[np.argmin(made.starts[busy])]] += 1
                break
    assert owned == pytest.approx(expected)


@given(st.data())
def test_the_critical_path_between_two_times_is_a_part_of_the_whole(graphs, data) -> None:
    made = simulate(data.draw(graphs()))
    span = made.makespan_us
    if span < 2:
        return
    cut = span / 2
    whole, first, second = critical_path(made), critical_path(made, 0, cut), critical_path(made, cut, span)
    for name in ("cpu", "gpu_compute", "gpu_communication", "launch", "data", "idle"):
        parts = (getattr(first, name) + getattr(second, name)) / 2
        assert parts == pytest.approx(getattr(whole, name), abs=1e-9)
