"""When warm-up is over, from the times of its steps."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

pytest.importorskip("torch", reason="the child's side of capture needs torch")

from skyline.capture.child.warm_up import WarmUp


def length(steps_ms: Sequence[float], warm_up: WarmUp) -> int:
    """After how many iterations it ends; the first has no time, as nothing is known of its beginning."""
    for count, step_ms in enumerate([None, *steps_ms], 1):
        if warm_up.over(count, step_ms):
            return count
    return -1


def test_it_ends_when_steps_agree() -> None:
    warm_up = WarmUp()
    assert length([90, 40, 20, 10, 10, 10.5, 10], warm_up) == 7
    assert warm_up.reason == "the step times had settled"


def test_steps_that_vary_without_a_trend_have_settled_too() -> None:
    assert length([10, 14, 11, 15, 10, 14, 12, 13], WarmUp()) == 7


def test_steps_that_become_faster_have_not() -> None:
    steps = [100 * 0.85**index for index in range(12)]
    assert length(steps, WarmUp()) == -1


def test_long_steps_are_not_waited_for() -> None:
    warm_up = WarmUp()
    assert length([6_000, 5_000, 4_000], warm_up) == 2
    assert warm_up.reason == "iterations are long"


def test_it_is_bounded() -> None:
    warm_up = WarmUp()
    steps = [10 * 0.9 ** (index % 9) for index in range(100)]
    assert 2 <= length(steps, warm_up) <= 60


def test_a_number_that_was_asked_for_is_kept() -> None:
    warm_up = WarmUp(asked=5)
    assert length([10.0] * 10, warm_up) == 5
    assert warm_up.reason == "as asked"


def test_a_step_that_is_told_one_iteration_later_is_left_out_as_the_one_that_it_was():
    warm_up = WarmUp()
    # The allocator took more in the fifth; the time of that is reported with the sixth.
    reserved = [1, 1, 1, 1, 2, 2, 2, 2, 2]
    steps = [None, None, 10, 30, 20, 500, 10, 10, 10]
    ends = [
        count
        for count, (step_ms, taken) in enumerate(zip(steps, reserved, strict=True), 1)
        if warm_up.over(count, step_ms, taken, behind=1)
    ]
    assert ends == [9]
    assert warm_up.reason == "the step times had settled"
