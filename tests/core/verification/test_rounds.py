"""Made-up rounds: the ratio, its interval, and whether they can be believed."""

from __future__ import annotations

import random

import pytest

from skyline.capture.ended_early import next_step
from skyline.capture.held_run import typical_ms
from skyline.capture.turns import Round, Turn, trial
from skyline.errors import ScriptFailed, UsageError
from skyline.interval import bootstrap
from skyline.trace.trial import Choices, Trial
from skyline.verification import measure as measurement
from skyline.verification.measure import Effort
from skyline.verification.verdict import judge


def one_round(base_ms: float, change_ms: float, again_ms: float, others: float = 0.0) -> Round:
    return Round(Turn(base_ms, (), others), Turn(again_ms, (), others), (Turn(change_ms, (), others),))


def rounds(
    count: int, ratio: float, null: float = 1.0, *, noise: float = 0.005, others: float = 0.0
) -> Trial:
    """``count`` rounds around a true ratio and null; the middle of the two bases is 100 ms."""
    chance = random.Random(3)

    def about(value: float) -> float:
        return value * (1 + chance.gauss(0, noise))

    base, again = 200 / (1 + null), 200 * null / (1 + null)
    done = [one_round(about(base), about(100 * ratio), about(again), others) for _ in range(count)]
    return trial(Choices(), done)


def test_a_machine_that_slows_down_steadily_cancels_out() -> None:
    drifting = one_round(base_ms=100.0, change_ms=55.0, again_ms=120.0)
    assert drifting.ratio() == pytest.approx(0.5)
    assert drifting.null == pytest.approx(1.2)


def test_the_interval_holds_the_true_ratio_and_narrows_with_rounds() -> None:
    few = bootstrap(rounds(6, 0.8, noise=0.02).ratios)
    many = bootstrap(rounds(60, 0.8, noise=0.02).ratios)
    assert few.low < 0.8 < few.high
    assert many.low < 0.8 < many.high
    assert many.half_width < few.half_width / 1.5
    assert bootstrap([0.5, 0.5, 0.5]) == bootstrap([0.5, 0.5, 0.5])


def test_the_interval_covers_the_median_nearly_as_often_as_it_says() -> None:
    chance = random.Random(0)
    found = [bootstrap([chance.gauss(1, 0.05) for _ in range(12)]) for _ in range(60)]
    assert sum(each.low <= 1 <= each.high for each in found) / len(found) > 0.85


def test_quiet_rounds_count() -> None:
    verdict = judge(rounds(8, 0.8), cores=4)
    assert verdict.valid
    assert verdict.ratio.value == pytest.approx(0.8, rel=0.01)
    assert verdict.null.value == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(
    ("measured", "reason"),
    [
        (rounds(8, 0.8, null=1.08), "compared with itself was 1.0"),
        (rounds(8, 0.8, null=0.92), "compared with itself was 0.9"),
        (rounds(8, 0.8, noise=0.2), "compared with itself"),
        (rounds(8, 0.8, others=1.5), "1.5 of 4 cores"),
        (rounds(3, 0.8), "too few rounds: 3"),
    ],
)
def test_rounds_that_say_too_little_are_discarded_with_the_next_step(measured, reason: str) -> None:
    verdict = judge(measured, cores=4)
    assert not verdict.valid
    assert reason in verdict.reason
    assert verdict.hint


def test_a_null_within_five_per_cent_counts_even_where_its_interval_leaves_one_out() -> None:
    # Two processes of one script differ by some per cent: that is what the tolerance is for.
    verdict = judge(rounds(8, 0.8, null=1.03, noise=0.001), cores=4)
    assert verdict.null.low > 1.02
    assert verdict.valid


def test_a_typical_iteration_of_one_loader_is_the_median() -> None:
    assert typical_ms((10.0, 11.0, 12.0, 500.0, 9.0), 1) == 11.0


def test_bursts_of_several_workers_are_averaged_over() -> None:
    # Two workers: every other batch has to be waited for. The median iteration would be either.
    assert typical_ms((10.0, 90.0) * 3 + (10.0,), 2) == 50.0
    # One epoch's end among them does not move it.
    assert typical_ms((10.0, 90.0, 10.0, 90.0, 400.0, 90.0, 10.0, 90.0), 2) == 50.0
    # Fewer than one burst: nothing better than their mean.
    assert typical_ms((10.0, 20.0), 4) == 15.0


@pytest.mark.parametrize("given", [{"rounds": 5}, {"rounds": 0}, {"minutes": 0.0}])
def test_an_effort_that_measures_nothing_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Effort(**given)


def test_a_module_that_only_the_change_needs_is_named() -> None:
    message = "ModuleNotFoundError: No module named 'torch_pruning'"

    def without_it() -> None:
        raise ScriptFailed(message, hint=next_step(message))

    with pytest.raises(ScriptFailed) as failed:
        measurement._of_the_change(without_it)
    assert failed.value.message.startswith("With the change, the script failed")
    assert "no module torch_pruning. Install it there" in failed.value.hint
    assert "without it, the script ran" in failed.value.hint
