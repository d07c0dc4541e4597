"""Facts of a full recording are added to the operators, and the times, of a light one."""

from __future__ import annotations

import pytest

from skyline.capture.child.recording.enrichment import enrich


def operator(name: str, start_us: float, line: int = 0, iteration: int = 0, shape: int = -1) -> dict:
    return {
        "name": name, "line": line, "iteration": iteration, "start_us": start_us, "duration_us": 10.0,
        "shape": shape, "flops": 100 * max(0, shape), "kind": "operator", "whole": True,
    }  # fmt: skip


def trace(*records: dict, lines: tuple[int, ...] = (5,), ends_us: tuple[float, ...] = (100.0,)) -> dict:
    starts = (0.0, *ends_us)
    return {
        "iterations": [
            {"index": index, "start_us": starts[index], "end_us": end} for index, end in enumerate(ends_us)
        ],
        "lines": [{"file": "train.py", "line": line, "function": "f"} for line in lines],
        "records": list(records),
        "shapes": [],
        "allocations": [],
    }


def shapes_of(trace: dict) -> list[tuple[int, int]]:
    return [(record["shape"], record["flops"]) for record in trace["records"]]


def test_operators_of_a_line_get_the_shapes_of_their_places_in_the_order() -> None:
    full = trace(operator("mm", 10, shape=1), operator("mm", 30, shape=2))
    light = trace(operator("mm", 5), operator("mm", 15), operator("mm", 25, iteration=1),
                  operator("mm", 35, iteration=1), ends_us=(20.0, 40.0))  # fmt: skip
    assert enrich(light, full) == 0
    assert shapes_of(light) == [(1, 100), (2, 200), (1, 100), (2, 200)]


def test_lines_count_by_what_they_are_not_by_their_number() -> None:
    full = trace(operator("mm", 10, line=0, shape=1), operator("mm", 30, line=1, shape=2), lines=(5, 6))
    light = trace(operator("mm", 10, line=0), operator("mm", 30, line=1), lines=(6, 5))
    enrich(light, full)
    assert shapes_of(light) == [(2, 200), (1, 100)]


def test_where_the_numbers_differ_the_most_frequent_stands_for_all() -> None:
    full = trace(*(operator("mm", 10 * n, shape=shape) for n, shape in enumerate((3, 1, 3))))
    light = trace(operator("mm", 5), operator("mm", 15))
    assert enrich(light, full) == 0
    assert shapes_of(light) == [(3, 300), (3, 300)]


def test_an_iteration_of_the_same_number_counts_before_the_last() -> None:
    full = trace(operator("mm", 10, shape=1), operator("mm", 110, iteration=1, shape=2),
                 operator("mm", 130, iteration=1, shape=2), ends_us=(100.0, 200.0))  # fmt: skip
    light = trace(operator("mm", 5))
    enrich(light, full)
    assert shapes_of(light) == [(1, 100)]


def test_time_of_which_nothing_is_known_is_said() -> None:
    full = trace(operator("mm", 10, shape=1))
    light = trace(operator("mm", 5), operator("sort", 15))
    assert enrich(light, full) == pytest.approx(0.5)


def test_allocations_keep_their_place_between_the_operators() -> None:
    full = trace(operator("mm", 20, shape=1), operator("add", 60, shape=2))
    light = trace(operator("mm", 10), operator("add", 30), ends_us=(50.0,))
    full["allocations"] = [
        {"time_us": time_us, "size_bytes": 8, "line": 0} for time_us in (0.0, 25.0, 45.0, 100.0)
    ]
    enrich(light, full)
    assert [row["time_us"] for row in light["allocations"]] == pytest.approx([0.0, 15.0, 25.0, 50.0])


def test_a_line_that_only_allocated_in_the_full_recording_is_added() -> None:
    full = trace(lines=(5, 9))
    full["allocations"] = [
        {"time_us": 3.0, "size_bytes": 8, "line": 1},
        {"time_us": 4.0, "size_bytes": 8, "line": -1},
    ]
    light = trace(lines=(5,))
    enrich(light, full)
    assert [row["line"] for row in light["allocations"]] == [1, -1]
    assert [line["line"] for line in light["lines"]] == [5, 9]
