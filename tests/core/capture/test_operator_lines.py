"""Lines of operators that make no call are learnt where calls are put under them, and told where none are."""

from __future__ import annotations

from skyline.capture.child.recording.operator_lines import OperatorLines

F = ("train.py", "forward")


def seen(*operators: str, iteration: int = 0) -> list[tuple[int, str, int]]:
    return [(iteration, name, index) for index, name in enumerate(operators)]


def learnt(*ways: list[tuple[str, int]]) -> OperatorLines:
    lines = OperatorLines()
    for way in ways:
        lines.learn(F, [(0, name, line) for name, line in way])
    return lines


def test_the_same_way_through_a_function_has_the_same_lines() -> None:
    lines = learnt([("mul", 3), ("add", 4), ("mul", 5)])
    assert lines.tell(F, seen("mul", "add", "mul")) == {0: 3, 1: 4, 2: 5}


def test_two_ways_through_a_function_are_told_apart() -> None:
    lines = learnt([("mul", 3), ("add", 4)], [("mul", 7), ("mul", 8)])
    assert lines.tell(F, seen("mul", "mul")) == {0: 7, 1: 8}
    assert lines.tell(F, seen("mul", "add")) == {0: 3, 1: 4}


def test_a_way_that_was_not_seen_is_told_as_far_as_it_resembles_one() -> None:
    lines = learnt([("mul", 3), ("add", 4), ("mul", 5), ("sub", 6)])
    assert lines.tell(F, seen("mul", "add", "div", "mul", "sub")) == {0: 3, 1: 4, 3: 5, 4: 6}


def test_an_operator_that_stands_on_one_line_only_is_known_there() -> None:
    lines = learnt([("mul", 3), ("add", 4)])
    assert lines.tell(F, seen("add", "add")) == {0: 4, 1: 4}


def test_other_functions_and_operators_stay_unknown() -> None:
    lines = learnt([("mul", 3)])
    assert lines.tell(("train.py", "backward"), seen("mul")) == {}
    assert lines.tell(F, seen("div")) == {}


def test_a_function_that_stays_is_cut_where_iterations_begin() -> None:
    lines = OperatorLines()
    lines.learn(F, [(0, "mul", 3), (0, "add", 4), (1, "mul", 3), (1, "add", 4)])
    four = [
        *seen("mul", "add"),
        *[(i, name, index + 2) for i, name, index in seen("mul", "add", iteration=1)],
    ]
    assert lines.tell(F, four) == {0: 3, 1: 4, 2: 3, 3: 4}
