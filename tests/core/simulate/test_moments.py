from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.simulate.critical_path import critical_path
from skyline.simulate.engine import simulate
from skyline.simulate.moments import billed_phases, billed_us, moments_us
from skyline.trace.record import Phase


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


def test_of_many_that_begin_at_once_the_first_has_the_moment() -> None:
    lanes = [f"lane {number}" for number in range(100)]
    made = timeline(*((lane, 0, 5) for lane in lanes))
    assert moments_us(made, [np.arange(100)]).tolist() == [5, *[0] * 99]


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


def task(name: str, kind: TaskKind, lane: str, phase: Phase) -> Task:
    return Task(name, kind, WorkClass.OTHER, lane, phase, 0)


def test_without_a_gpu_it_is_the_time_of_the_lane(chain):
    timeline = simulate(chain(("main", 5.0), ("main", 3.0), ("worker", 9.0), gaps={0: 2.0}))
    assert billed_us(timeline, "main") == pytest.approx((7.0, 3.0, 0.0))


def test_moments_of_the_gpu_are_its_own_and_the_host_gets_the_rest():
    """The host launches from 0 to 10 and from 10 to 20; the kernels run from 5 to 15 and from 15 to 40."""
    tasks = (
        task("launch", TaskKind.LAUNCH, "main", Phase.FORWARD),
        task("first", TaskKind.KERNEL, "gpu", Phase.FORWARD),
        task("launch", TaskKind.LAUNCH, "main", Phase.BACKWARD),
        task("second", TaskKind.KERNEL, "gpu", Phase.BACKWARD),
        task("wait", TaskKind.SYNC, "main", Phase.OTHER),
    )
    waits = (
        Dependency(0, 1, Cause.LAUNCH, 5.0, from_start=True),
        Dependency(2, 3, Cause.LAUNCH, 5.0, from_start=True),
        Dependency(3, 4, Cause.SYNC),
    )
    timeline = simulate(Graph(Structure(tasks, waits), (10.0, 10.0, 10.0, 25.0, 2.0), (0.0,) * 5))
    billed = billed_us(timeline, "main")
    assert billed == pytest.approx((5.0, 10.0, 0.0, 25.0, 2.0))
    assert sum(billed) == pytest.approx(timeline.makespan_us)
    phases = billed_phases(timeline, billed)
    assert (phases.forward, phases.backward, phases.other) == pytest.approx((0.015, 0.025, 0.002))


def test_kernels_that_run_at_once_are_billed_once():
    tasks = tuple(task(lane, TaskKind.KERNEL, lane, Phase.FORWARD) for lane in ("a", "b"))
    timeline = simulate(Graph(Structure(tasks), (10.0, 15.0), (0.0, 0.0)))
    assert billed_us(timeline, "main") == pytest.approx((10.0, 5.0))
