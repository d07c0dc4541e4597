from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.dependency import Cause, Dependencies, Dependency
from skyline.graph.graph import Structure
from skyline.graph.task import KIND, Task, TaskKind, Tasks, WorkClass
from skyline.trace.record import Phase

TASKS = (
    Task("a", TaskKind.CPU, WorkClass.MATMUL, "main", Phase.FORWARD, 0, 1, 2, 3, 4, 5.5),
    Task("b", TaskKind.KERNEL, WorkClass.OTHER, "stream 7", Phase.BACKWARD, 1),
    Task("a", TaskKind.COPY, WorkClass.CONVOLUTION, "stream 7", Phase.OPTIMIZER, 2),
)
WAITS = (Dependency(0, 1, Cause.LAUNCH, 2.5, from_start=True), Dependency(1, 2, Cause.SYNC))


def copied(tasks: Tasks) -> Tasks:
    """The same columns without the tasks that they were made from."""
    return tasks.changed()


def test_tasks_come_back_as_they_were_given():
    tasks = copied(Tasks.of(TASKS))
    assert tuple(tasks) == TASKS
    assert tasks[1] == TASKS[1]
    assert tasks[-1] == TASKS[-1]
    assert tasks[1:] == TASKS[1:]
    assert len(tasks) == 3
    with pytest.raises(IndexError):
        _ = tasks[3]


def test_one_task_of_many_is_made_alone():
    many = Tasks.columns(60_000, ("a", "b"), ("main",), name=np.arange(60_000) % 2, line=np.arange(60_000))
    assert (many[7].name, many[7].line, many[-1].line) == ("b", 7, 59_999)
    assert many[7].kind is TaskKind.CPU
    assert sum(task.name == "b" for task in many) == 30_000
    with pytest.raises(IndexError):
        _ = many[60_000]
    with pytest.raises(IndexError):
        _ = many[-60_001]


def test_names_are_kept_once():
    tasks = Tasks.of(TASKS)
    assert tasks.names == ("a", "b")
    assert tasks.name.tolist() == [0, 1, 0]
    assert tasks.kind.tolist() == [KIND[task.kind] for task in TASKS]


def test_unknown_and_uneven_columns_are_errors():
    with pytest.raises(TypeError, match="no column weight"):
        Tasks.columns(1, ("a",), ("main",), weight=[1])
    with pytest.raises(ValueError, match="column line"):
        Tasks.columns(2, ("a",), ("main",), line=[1])
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        Dependencies.columns([0, 1], [1], Cause.SYNC)


def test_some_rows_and_rows_of_several():
    tasks = Tasks.of(TASKS)
    assert tuple(tasks.taken(np.array([2, 0, 2]))) == (TASKS[2], TASKS[0], TASKS[2])
    assert tasks.taken(np.array([0])).lanes == ("main",)
    assert tuple(copied(tasks).taken(np.array([1]))) == TASKS[1:2]
    other = Tasks.of((TASKS[1], TASKS[0]))
    assert tuple(tasks.joined(other)) == (*TASKS, TASKS[1], TASKS[0])
    assert tasks.joined(other).names == ("a", "b")


def test_what_is_not_changed_is_shared():
    tasks = Tasks.of(TASKS)
    changed = tasks.changed(iteration=[7, 7, 7])
    assert changed.kind is tasks.kind
    assert [task.iteration for task in changed] == [7, 7, 7]
    assert tasks[0].iteration == 0


def test_dependencies_come_back_as_they_were_given():
    edges = Dependencies.of(WAITS)
    assert tuple(edges.taken(slice(None))) == WAITS
    assert edges[1] == WAITS[1]
    assert tuple(edges.joined(WAITS[:1])) == (*WAITS, WAITS[0])
    assert edges.between([5, 6], [7, 8])[0] == Dependency(5, 7, Cause.LAUNCH, 2.5, from_start=True)


def test_one_dependency_of_many_is_made_alone():
    many = Dependencies.columns(np.arange(60_000), np.arange(60_000) + 1, Cause.EVENT, lag_us=3.0)
    assert many[-1] == Dependency(59_999, 60_000, Cause.EVENT, 3.0)
    assert many[1:3] == (Dependency(1, 2, Cause.EVENT, 3.0), Dependency(2, 3, Cause.EVENT, 3.0))
    assert sum(one.source for one in many) == 60_000 * 59_999 // 2
    with pytest.raises(IndexError):
        _ = many[60_000]


def test_a_structure_knows_what_comes_before_and_after():
    structure = Structure(TASKS, WAITS)
    assert structure.lanes == ("main", "stream 7")
    assert structure.before.tolist() == [-1, -1, 1]
    assert structure.after.tolist() == [-1, 2, -1]
    assert structure.iterations == (0, 1, 2)
    assert structure.order.tolist() == [0, 1, 2]
    assert structure.incoming == ((), WAITS[:1], WAITS[1:])


def test_incoming_dependencies_are_sorted_by_target():
    waits = (Dependency(0, 2, Cause.SYNC, 1.0), Dependency(0, 1, Cause.LAUNCH, 2.0, from_start=True))
    structure = Structure(TASKS, waits)
    assert structure.incoming_offsets.tolist() == [0, 0, 1, 2]
    assert structure.incoming_lag.tolist() == [2.0, 1.0]
    assert structure.incoming_from_start.tolist() == [True, False]
    assert [incoming for _, _, incoming in structure.visits] == [(), ((0, 2.0, True),), ((0, 1.0, False),)]


def test_other_dependencies_keep_what_follows_from_the_tasks():
    structure = Structure(TASKS, WAITS)
    before = structure.before
    assert structure.with_parts(dependencies=WAITS[:1]).before is before


def test_dependencies_that_point_back_are_sorted_in():
    # The first task stands first and waits for the second; among those that are ready the first to stand goes.
    structure = Structure(TASKS, (Dependency(1, 0, Cause.SYNC),))
    assert structure.order.tolist() == [1, 0, 2]
