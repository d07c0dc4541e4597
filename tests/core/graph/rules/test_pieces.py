from __future__ import annotations

import numpy as np

from skyline.graph.rules.pieces import Pieces, Role


def pieces(*spans, role=Role.OPERATOR):
    count = len(spans)
    return Pieces(
        np.array([thread for thread, _, _ in spans], np.int32),
        np.array([start for _, start, _ in spans], np.float64),
        np.array([end for _, _, end in spans], np.float64),
        np.arange(count, dtype=np.int32),
        np.full(count, -1, np.int32),
        np.full(count, role, np.uint8),
    )


def marked(given, *points):
    thread, time = zip(*points, strict=True)
    return given.marked(
        np.array(thread, np.int32), np.array(time, np.float64), np.full(len(points), 99, np.int32), Role.MARK
    )


def test_a_point_between_stretches_and_one_inside() -> None:
    found, places = marked(pieces((0, 0, 10), (0, 20, 30), (1, 0, 5)), (0, 15), (0, 24))
    assert list(zip(found.start_us.tolist(), found.end_us.tolist(), strict=True)) == [
        (0, 10),
        (15, 15),
        (20, 24),
        (24, 24),
        (24, 30),
        (0, 5),
    ]
    assert places.tolist() == [1, 3]
    assert found.event.tolist() == [0, 99, 1, 99, 1, 2]


def test_two_points_in_one_stretch() -> None:
    found, places = marked(pieces((0, 0, 10)), (0, 7), (0, 3))
    assert found.start_us.tolist() == [0, 3, 3, 7, 7]
    assert found.end_us.tolist() == [3, 3, 7, 7, 10]
    assert places.tolist() == [3, 1]


def test_the_rest_of_a_split_launch_waits() -> None:
    found, _ = marked(pieces((0, 0, 10), role=Role.LAUNCH), (0, 4))
    assert found.role.tolist() == [Role.LAUNCH, Role.MARK, Role.SYNC]


def test_a_point_at_an_end_comes_behind_and_one_at_a_start_before() -> None:
    found, places = marked(pieces((0, 0, 10), (0, 10, 20)), (0, 10))
    assert found.event.tolist() == [0, 99, 1]
    assert places.tolist() == [1]
