from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.task import TaskKind
from skyline.simulate.groups import groups_by
from skyline.trace.record import CodeLine, Phase


@pytest.fixture
def two_lines(chain):
    """The main thread computes 10 + 5 while another one loads for 12; the last task waits for both."""
    graph = chain(
        ("main", 10),
        ("main", 5),
        ("loader", 12),
        ("main", 1),
        waits=(Dependency(2, 3, Cause.LOADER),),
    )
    tasks = [
        replace(task, line=line, module=module, phase=phase)
        for task, line, module, phase in zip(
            graph.tasks,
            (0, 1, 2, -1),
            (0, 1, -1, -1),
            (Phase.FORWARD, Phase.FORWARD, Phase.DATA, Phase.OTHER),
            strict=True,
        )
    ]
    lines = tuple(CodeLine("train.py", number) for number in (7, 8, 3))
    return Graph(Structure(tasks, graph.structure.dependencies, ("net.a", "net.b.c"), lines), graph.durations)


def test_a_layer_holds_the_layers_in_it(two_lines):
    found = {name: members.tolist() for name, members in groups_by(two_lines, "layer").items()}
    assert found == {"net": [0, 1], "net.a": [0], "net.b": [1], "net.b.c": [1]}


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("phase", {"forward": [0, 1], "data": [2], "other": [3]}),
        ("lane", {"main": [0, 1, 3], "loader": [2]}),
        ("kind", {TaskKind.CPU.value: [0, 1, 2, 3]}),
        ("name", {"t0": [0], "t1": [1], "t2": [2], "t3": [3]}),
        ("call_line", {}),
    ],
)
def test_groups(two_lines, by, expected):
    assert {name: members.tolist() for name, members in groups_by(two_lines, by).items()} == expected


def test_two_lines_of_one_name_are_one_group(two_lines):
    structure = two_lines.structure
    lines = (CodeLine("train.py", 7, "f"), CodeLine("train.py", 7, "g"), CodeLine("train.py", 3))
    made = Graph(
        Structure(list(two_lines.tasks), structure.dependencies, structure.modules, lines),
        two_lines.durations,
    )
    found = {name: members.tolist() for name, members in groups_by(made, "line").items()}
    assert found == {"train.py:7": [0, 1], "train.py:3": [2]}
