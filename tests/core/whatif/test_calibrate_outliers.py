"""Hold-ups of single operators: found among iterations, and left where they cannot be found."""

from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.graph import Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.trace.record import Phase
from skyline.whatif.calibration import steadied


def graph_of(*iterations: list[tuple[str, float, float]]) -> Graph:
    rows = [(number, *row) for number, each in enumerate(iterations) for row in each]
    tasks = [
        Task(name, TaskKind.CPU, WorkClass.OTHER, "main", Phase.FORWARD, number)
        for number, name, _, _ in rows
    ]
    return Graph(Structure(tasks, (), (), ()), [row[2] for row in rows], [row[3] for row in rows])


USUAL = [("linear", 900.0, 50.0), ("relu", 100.0, 40.0), ("linear", 300.0, 20.0)]


def held_up(place: int, us: float, gap_us: float = 0.0) -> list[tuple[str, float, float]]:
    return [
        (name, us, gap) if number == place and us else (name, took, gap_us if number == place else gap)
        for number, (name, took, gap) in enumerate(USUAL)
    ]


def test_an_operator_held_up_once_takes_what_it_does_in_the_others() -> None:
    after = steadied(graph_of(USUAL, held_up(2, 15_000.0), USUAL))
    assert after.durations.tolist() == [900.0, 100.0, 300.0] * 3
    assert after.gaps.tolist() == [50.0, 40.0, 20.0] * 3


def test_python_held_up_once_does_too() -> None:
    after = steadied(graph_of(held_up(0, 0.0, 9_000.0), USUAL, USUAL))
    assert after.gaps.tolist() == [50.0, 40.0, 20.0] * 3


@pytest.mark.parametrize("us", [550.0, 1300.0])
def test_what_differs_a_little_stays(us: float) -> None:
    graph = graph_of(USUAL, held_up(2, us), USUAL)
    assert np.array_equal(steadied(graph).durations, graph.durations)


def test_what_two_of_three_iterations_do_is_no_hold_up() -> None:
    graph = graph_of(USUAL, held_up(1, 8_000.0), held_up(1, 9_000.0))
    assert np.array_equal(steadied(graph).durations, graph.durations)


def test_two_iterations_tell_nothing() -> None:
    graph = graph_of(USUAL, held_up(1, 8_000.0))
    assert steadied(graph) is graph


def test_what_only_one_iteration_does_stays() -> None:
    graph = graph_of(USUAL, [*USUAL, ("save", 80_000.0, 0.0)], USUAL)
    assert np.array_equal(steadied(graph).durations, graph.durations)
