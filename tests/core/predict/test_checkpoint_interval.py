"""The best interval between checkpoints: by the formulas on paper, and by a search for the least expected time."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, sqrt

import pytest

from skyline.predict.checkpoint_interval import Failures, best_interval_s, lost_share, saving
from skyline.trace.observed_training import ObservedSave, ObservedTraining
from skyline.trace.record import CodeLine

LINE = CodeLine("/project/train.py", 12)


def training(*saves: ObservedSave) -> ObservedTraining:
    return ObservedTraining(
        samples=16,
        gradients=(),
        iterations=500,
        iteration_ms=100.0,
        startup_s=8.0,
        warming_s=0.0,
        epoch_end_s=None,
        saves=saves,
    )


def test_young_is_the_first_factor_and_daly_close_to_it() -> None:
    assert best_interval_s(2.0, 1e6) == pytest.approx(sqrt(2 * 2.0 * 1e6) - 2 + 2 / 3, rel=1e-3)
    assert best_interval_s(10.0, 4.0) == 4.0


@pytest.mark.parametrize(("save_s", "mtbf_s"), [(1.0, 3600.0), (30.0, 7200.0), (60.0, 86_400.0), (0.1, 4e6)])
def test_no_other_interval_loses_noticeably_less(save_s: float, mtbf_s: float) -> None:
    best = best_interval_s(save_s, mtbf_s)
    least = min(lost_share(best * 1.02**power, save_s, 5.0, mtbf_s) for power in range(-100, 101))
    assert lost_share(best, save_s, 5.0, mtbf_s) <= least * 1.005 + 1e-9


def test_without_failures_saving_is_all_that_is_lost() -> None:
    assert lost_share(100.0, 2.0, 60.0, 1e12) == pytest.approx(0.02, rel=1e-6)
    assert lost_share(1e9, 2.0, 60.0, 3600.0) == inf
    assert lost_share(60.0, 0.0, 0.0, 60.0) == pytest.approx(exp(1) - 2)


def test_saves_between_the_same_iterations_are_one_checkpoint() -> None:
    found = saving(
        training(
            ObservedSave(100, 0.5, 300, LINE),
            ObservedSave(100, 0.2, 50, CodeLine("/project/train.py", 13)),
            ObservedSave(150, 0.4, 300, LINE),
            ObservedSave(150, 0.1, 50),
            ObservedSave(200, 0.6, 300, LINE),
        ),
        Failures(3600.0, "as given"),
    )
    assert found is not None
    assert found.seen == 3
    assert found.every == 50
    assert (found.save_s.low, found.save_s.value, found.save_s.high) == (0.5, 0.6, pytest.approx(0.7))
    assert found.size_bytes == 350
    assert found.line == LINE
    assert found.restart_s == pytest.approx(8.6)
    assert found.best == round(best_interval_s(0.6, 3600.0) / 0.1)
    assert found.lost_now == pytest.approx(lost_share(5.0, 0.6, 8.6, 3600.0))
    assert found.lost_now is not None
    assert found.lost_partial < found.lost_best < found.lost_now


def test_a_checkpoint_takes_the_time_around_its_calls_too() -> None:
    calls = training(ObservedSave(100, 0.5, 300, LINE), ObservedSave(200, 0.5, 300, LINE))
    found = saving(replace(calls, around_saves_s=0.2), Failures())
    assert found is not None
    assert found.save_s.ends == (pytest.approx(0.7),) * 3
    assert found.restart_s == pytest.approx(8.7)


def test_one_checkpoint_at_the_end_of_an_epoch_is_one_for_each() -> None:
    once = training(ObservedSave(200, 0.5, 300))
    for epoch, every in ((None, None), (100.0, 100.0), (200.0, 200.0), (130.0, None)):
        found = saving(once, Failures(), epoch)
        assert found is not None
        assert found.every == every
        assert (found.lost_now is None) == (every is None)


def test_a_training_that_saves_nothing_has_no_interval() -> None:
    assert saving(training(), Failures()) is None


def test_a_file_before_the_first_iteration_is_no_checkpoint() -> None:
    prepared = ObservedSave(0, 0.001, 20, LINE)
    found = saving(training(prepared, ObservedSave(100, 0.5, 300, LINE)), Failures())
    assert found is not None
    assert (found.seen, found.save_s.low) == (1, 0.5)
    assert saving(training(prepared), Failures()) is None
