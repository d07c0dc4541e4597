"""Forward work that is done once more right before its backward work."""

from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.recomputation import Recomputed, recompute
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.simulate.engine import simulate
from skyline.trace.record import Phase


def task(name: str, phase: Phase, lane: str = "main", kind: TaskKind = TaskKind.CPU) -> Task:
    return Task(name, kind, WorkClass.OTHER, lane, phase, 0)


def names(graph: Graph, lane: str) -> list[str]:
    return [one.name for one in graph.tasks if one.lane == lane]


@pytest.fixture
def passes() -> Graph:
    tasks = [task(name, Phase.FORWARD) for name in "abc"] + [task(name, Phase.BACKWARD) for name in "CBA"]
    return Graph(Structure(tasks, (), (), ()), [1, 2, 4, 8, 16, 32], [0.5] * 6)


def test_each_block_runs_again_before_its_own_backward_work(passes) -> None:
    changed = recompute(
        passes, [Recomputed(np.array([0]), 5), Recomputed(np.array([1, 2]), 3, overhead_us=7.0)]
    )
    assert names(changed, "main") == ["a", "b", "c", "b", "c", "C", "B", "a", "A"]
    assert [one.phase for one in changed.tasks][3:] == [Phase.BACKWARD] * 6
    added = 1 + 2 + 4 + 3 * 0.5 + 7
    assert simulate(changed).makespan_us == pytest.approx(simulate(passes).makespan_us + added)


def test_nothing_to_repeat_changes_nothing(passes) -> None:
    assert recompute(passes, []) is passes


def on_gpu() -> Graph:
    """Two launches on the main thread, and one on the thread that does the backward work."""
    tasks = [
        task("launch f", Phase.FORWARD, kind=TaskKind.LAUNCH),
        task("f", Phase.FORWARD, "stream", TaskKind.KERNEL),
        task("loss", Phase.FORWARD, kind=TaskKind.LAUNCH),
        task("l", Phase.FORWARD, "stream", TaskKind.KERNEL),
        task("launch b", Phase.BACKWARD, "autograd", TaskKind.LAUNCH),
        task("b", Phase.BACKWARD, "stream", TaskKind.KERNEL),
    ]
    dependencies = [
        *(Dependency(n, n + 1, Cause.LAUNCH, 1.0, from_start=True) for n in (0, 2, 4)),
        Dependency(2, 4, Cause.HAND_OFF),
    ]
    return Graph(Structure(tasks, dependencies, (), ()), [2, 100, 2, 10, 2, 50])


def test_kernels_come_with_their_launches_and_run_on_the_backward_thread() -> None:
    graph = on_gpu()
    changed = recompute(graph, [Recomputed(np.array([0]), 4)])
    assert names(changed, "autograd") == ["launch f", "launch b"]
    assert names(changed, "main") == ["launch f", "loss"]
    assert names(changed, "stream") == ["f", "l", "f", "b"]
    assert simulate(changed).makespan_us == pytest.approx(simulate(graph).makespan_us + 100)
    # The copies wait for the hand-over as the backward work does.
    starts = simulate(changed).starts
    copy = next(n for n, one in enumerate(changed.tasks) if one.name == "launch f" and one.lane == "autograd")
    assert starts[copy] >= 4
