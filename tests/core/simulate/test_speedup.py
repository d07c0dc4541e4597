from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.task import TaskKind
from skyline.simulate.engine import simulate
from skyline.simulate.groups import groups_by
from skyline.simulate.speedup import virtual_speedup
from skyline.trace.phase import Phase
from skyline.trace.record import CodeLine


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


def test_what_is_won_is_less_than_the_work_where_something_else_is_waited_for(two_lines, way):
    answers = virtual_speedup(two_lines, groups_by(two_lines, "line"))
    won = {(answer.group, answer.factor): answer.saved_ms * 1e3 for answer in answers}
    # Without line 7 the step ends when the loader does, at 13 instead of 16; half of it wins as much.
    assert won == pytest.approx(
        {
            ("train.py:7", 0.0): 3,
            ("train.py:7", 0.5): 3,
            ("train.py:8", 0.0): 3,
            ("train.py:8", 0.5): 2.5,
            ("train.py:3", 0.0): 0,
            ("train.py:3", 0.5): 0,
        }
    )
    assert [answer.own_ms * 1e3 for answer in answers[::2]] == pytest.approx([10, 5, 12])
    assert {answer.unchanged_ms * 1e3 for answer in answers} == {16}


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


def test_nothing_asked_nothing_answered(two_lines):
    assert virtual_speedup(two_lines, {}) == ()


def test_a_schedule_of_ones_own_is_kept(two_lines, way):
    graph = Graph(two_lines.structure, two_lines.durations, two_lines.gaps, [0, 1, float("nan"), 0])
    free, half = virtual_speedup(graph, {"all": range(4)})
    assert (free.step_ms, half.step_ms, half.unchanged_ms) == (0, 0.008, 0.016)


@settings(deadline=None)
@given(st.data())
def test_it_is_the_simulation_of_the_scaled_graph(way, graphs, data):
    graph = data.draw(graphs())
    groups = groups_by(graph, data.draw(st.sampled_from(["name", "phase", "lane"])))
    lane = data.draw(st.sampled_from([None, graph.tasks[0].lane]))
    for answer in virtual_speedup(graph, groups, (0.0, 0.25, 1.0), lane=lane):
        durations, gaps = graph.durations.copy(), graph.gaps.copy()
        durations[groups[answer.group]] *= answer.factor
        gaps[groups[answer.group]] *= answer.factor
        ends = simulate(Graph(graph.structure, durations, gaps)).iteration_ends_us(lane)
        assert answer.step_ms == pytest.approx(ends[-1] / len(ends) / 1e3)
        assert answer.saved_ms >= -1e-9
