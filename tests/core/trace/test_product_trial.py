"""Times of tried products: what narrowing brings, and which part of them threads share out."""

from __future__ import annotations

import pytest

from skyline.trace.trial import ProductTrial, TriedTimes


def trial(threads: int, other_threads: int) -> ProductTrial:
    times = TriedTimes()
    return ProductTrial("aten::mm", ((2, 2), (2, 2)), "bfloat16", times, times, 4, 16, threads, other_threads)


@pytest.mark.parametrize(("threads", "other_threads"), [(2, 1), (1, 2), (8, 1), (1, 8), (4, 2)])
@pytest.mark.parametrize("part", [0.0, 0.4, 1.0])
def test_the_part_that_threads_share_is_found(threads: int, other_threads: int, part: float) -> None:
    here, there = (100 * (1 - part + part / count) for count in (threads, other_threads))
    times = TriedTimes(here, 0.5 * here, there, 0.5 * there)
    one = trial(threads, other_threads)
    assert one.divided_part(times, narrow=False) == pytest.approx(part)
    assert one.divided_part(times, narrow=True) == pytest.approx(part)
    assert times.narrowing == 0.5


def test_more_threads_that_take_longer_share_nothing() -> None:
    assert trial(2, 1).divided_part(TriedTimes(120.0, 0.0, 100.0, 0.0), narrow=False) == 0.0


def test_more_than_all_cannot_be_shared() -> None:
    assert trial(2, 1).divided_part(TriedTimes(100.0, 0.0, 230.0, 0.0), narrow=False) == 1.0


def test_what_was_not_tried_is_not_known() -> None:
    assert trial(2, 1).divided_part(TriedTimes(100.0, 50.0), narrow=False) is None
    assert trial(2, 1).divided_part(TriedTimes(100.0, 0.0, 200.0, 0.0), narrow=True) is None
    assert trial(2, 2).divided_part(TriedTimes(100.0, 50.0, 100.0, 50.0), narrow=False) is None
    assert TriedTimes().narrowing == 0.0
