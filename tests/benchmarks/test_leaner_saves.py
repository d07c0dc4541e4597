from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.predict.checkpoint_interval import Failures, saving
from skyline.trace.observed_training import ObservedSave, ObservedTraining


def test_a_longer_interval_is_faster_by_the_saves_that_are_left_out() -> None:
    from leaner_saves import said_of

    saves = tuple(ObservedSave(10 * number, seconds, 0) for number, seconds in enumerate((0.2, 0.1, 0.3), 1))
    found = saving(ObservedTraining(16, (), 40, 100.0, 8.0, 0.0, None, saves=saves), Failures())
    assert found is not None
    said = said_of(found, 50)
    # Ten iterations take a second and save for 0.2 s; fifty take five seconds and save as long.
    assert said.ratio == pytest.approx(1.04 / 1.2)
    assert (said.low, said.high) == pytest.approx((1.06 / 1.3, 1.02 / 1.1))
    assert said_of(replace(found, every=50), 10).ratio == pytest.approx(1.2 / 1.04)


@pytest.mark.parametrize(("step_ms", "iterations"), [(1000.0, 30), (50.0, 90), (10.0, 390)])
def test_a_turn_is_a_whole_number_of_both_intervals(step_ms: float, iterations: int) -> None:
    from leaner_saves import periods

    assert periods(10, 15, step_ms) == iterations
