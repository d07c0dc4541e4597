from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skyline.source.line_map import LineMap

OLD = "import torch\n\nfor x in data:\n    a()\n    b()\n    c()\n"


def test_the_same_text_maps_to_itself() -> None:
    lines = LineMap(OLD, OLD)
    assert lines.identical
    assert [lines(line) for line in (1, 4)] == [1, 4]


def test_a_line_inserted_above_moves_those_below() -> None:
    lines = LineMap(OLD, OLD.replace("\n\nfor", "\nimport os\n\nfor"))
    assert [lines(line) for line in (1, 3, 6)] == [1, 4, 7]


def test_a_changed_line_has_no_counterpart() -> None:
    lines = LineMap(OLD, OLD.replace("b()", "b(1)"))
    assert [lines(line) for line in (4, 5, 6)] == [4, None, 6]


def test_a_removed_line_has_no_counterpart() -> None:
    lines = LineMap(OLD, OLD.replace("    b()\n", ""))
    assert [lines(line) for line in (4, 5, 6)] == [4, None, 5]


def test_two_edits_apart() -> None:
    lines = LineMap(
        OLD, OLD.replace("import torch", "import os\nimport torch").replace("b()", "x()\n    y()")
    )
    assert [lines(line) for line in (1, 3, 4, 5, 6)] == [2, 4, 5, None, 8]


def test_nearest_stays_below_the_unchanged_line_above() -> None:
    lines = LineMap(OLD, OLD.replace("for x in data:", "for x in loader:"))
    assert lines(3) is None
    assert lines.nearest(3) == 3
    assert LineMap("a\n", "b\n").nearest(1) == 1


def test_newline_styles_are_no_difference() -> None:
    assert LineMap(OLD, OLD.replace("\n", "\r\n"))(6) == 6


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcd")))
def test_mapped_lines_read_the_same_and_keep_their_order(old: list[str], new: list[str]) -> None:
    lines = LineMap("\n".join(old), "\n".join(new))
    mapped = [(line, target) for line in range(1, len(old) + 1) if (target := lines(line)) is not None]
    assert all(old[line - 1] == new[target - 1] for line, target in mapped)
    assert [target for _, target in mapped] == sorted({target for _, target in mapped})
