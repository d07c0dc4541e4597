from __future__ import annotations

import re

import pytest

from skyline.graph import Criteria, Phase, TaskKind, WorkClass, launched_by, launches_of, select


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"name": "gemm"}, [1, 3]),
        ({"name": ("Synchronize", "sgemm 1")}, [3, 4]),
        ({"name": re.compile(r"^sgemm \d$")}, [1, 3]),
        ({"kind": TaskKind.LAUNCH}, [0, 2]),
        ({"kind": (TaskKind.KERNEL, TaskKind.SYNC)}, [1, 3, 4]),
        ({"lane": "main"}, [0, 2, 4]),
        ({"lane": "stream *"}, [1, 3]),
        ({"layer": "layers.1"}, [2, 3]),
        ({"layer": "*.linear"}, [0, 1, 2, 3]),
        ({"layer": "layers.1.lin"}, []),
        ({"line": "train.py:11"}, [2, 3]),
        ({"line": "/project/train.py:10"}, [0, 1]),
        ({"line": "other.py:10"}, []),
        ({"phase": Phase.BACKWARD}, []),
        ({"phase": [Phase.BACKWARD, Phase.FORWARD]}, [0, 1, 2, 3, 4]),
        ({"work": WorkClass.MATMUL}, []),
        ({"iteration": 0}, [0, 1, 2, 3, 4]),
        ({"iteration": (1, 2)}, []),
        ({"on_gpu": True}, [1, 3]),
        ({"on_gpu": False, "layer": "layers.0"}, [0]),
        ({"where": lambda task: task.line == 1}, [2, 3]),
        ({"kind": TaskKind.KERNEL, "where": lambda task: task.line == 1}, [3]),
    ],
)
def test_tasks_are_found_by_what_they_are(pipeline, criteria, expected):
    assert select(pipeline(), **criteria).tolist() == expected
    assert select(pipeline(), Criteria(**criteria)).tolist() == expected


def test_a_predicate_is_asked_about_nothing_else(pipeline):
    asked = []
    select(pipeline(), lane="stream 7", where=asked.append)
    assert [task.name for task in asked] == ["sgemm 0", "sgemm 1"]


def test_an_unknown_criterion_is_an_error(pipeline):
    with pytest.raises(TypeError, match="colour"):
        select(pipeline(), colour="red")


def test_launches_and_what_they_launch(pipeline):
    graph = pipeline(3)
    assert launches_of(graph, [1, 5]).tolist() == [0, 4]
    assert launched_by(graph, select(graph, layer="layers.1")).tolist() == [3]
