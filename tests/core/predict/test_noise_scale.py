"""The gradient noise scale from gradients that are drawn here, whose true noise scale is known."""

from __future__ import annotations

import random
from itertools import product

import pytest

from skyline.predict.noise_scale import NoiseScale, noise_scale, over_training
from skyline.trace.observed_training import GradientSample

DIMENSIONS = 400


def drawn(count: int, batch: int, noise: float, seed: int) -> GradientSample:
    """Gradients with the squared norm 1 in the mean, and the trace of the covariance ``noise`` for a single sample."""
    chance = random.Random(seed)
    spread = (noise / batch / DIMENSIONS) ** 0.5
    true = [1.0] + [0.0] * (DIMENSIONS - 1)
    rows = [[one + chance.gauss(0, spread) for one in true] for _ in range(count)]
    return sample(rows)


def sample(rows: list[list[float]]) -> GradientSample:
    inner = [[sum(map(float.__mul__, one, other)) for other in rows] for one in rows]
    return GradientSample(0, 0, tuple(map(tuple, inner)))


@pytest.mark.parametrize("noise", [64.0, 640.0])
def test_the_range_contains_the_noise_scale_of_most_draws(noise: float) -> None:
    found = [noise_scale(drawn(20, 64, noise, seed), 64, None) for seed in range(30)]
    assert all(one is not None for one in found)
    inside = [one for one in found if one and one.low <= noise <= (one.high or float("inf"))]
    assert len(inside) >= 25
    values = sorted(one.value or 0.0 for one in found if one)
    assert values[15] == pytest.approx(noise, rel=0.2)


def test_noise_that_hides_the_gradient_gives_a_lower_bound() -> None:
    found = noise_scale(drawn(8, 1, 1e6, 0), 1, None)
    assert found is not None
    assert found.high is None
    assert 0 < found.low < 1e6


def test_two_gradients_on_paper() -> None:
    """(3, 1), (3, -1), (3, 0): |G|^2 is 9 less a ninth of the squares' sum, 2, over two."""
    found = noise_scale(sample([[3.0, 1.0], [3.0, -1.0], [3.0, 0.0]]), 10, None)
    assert found is not None
    assert found.value is not None
    mean_square, inner = 29 / 3, (27 - 1) / 3
    assert found.value == pytest.approx(10 * (mean_square - inner) / inner)


def test_batches_of_one_epoch_of_all_samples_are_corrected() -> None:
    """All samples once, in batches: the mean of the gradients is the true one, of squared norm 1 here."""
    samples = [[1.0, one, other] for one, other in product((-4.0, -1.0, 1.0, 4.0), repeat=2)]
    random.Random(1).shuffle(samples)
    batches = [
        [sum(column) / 2 for column in zip(*samples[at : at + 2], strict=True)] for at in range(0, 16, 2)
    ]
    squares = sum(sum(value**2 for value in one) for one in batches) / 8
    inner = (64 - 8 * squares) / 56
    trace = 2 * (squares - inner)
    corrected = noise_scale(sample(batches), 2, len(samples))
    assert corrected is not None
    assert inner + trace / 16 == pytest.approx(1.0)
    assert corrected.value == pytest.approx(trace)


def test_equal_gradients_have_no_noise() -> None:
    assert noise_scale(sample([[1.0, 2.0]] * 5), 8, None) is None


def test_the_law_on_paper() -> None:
    noise = NoiseScale(100.0, 50.0, 200.0)
    found = noise.relative_samples(300, 100)
    assert found.value == pytest.approx(2.0)
    assert (found.low, found.high) == (pytest.approx(500 / 300), pytest.approx(350 / 150))
    smaller = noise.relative_samples(50, 100)
    assert smaller.value == pytest.approx(0.75)
    assert smaller.low < smaller.value < smaller.high
    unbounded = NoiseScale(None, 100.0, None).relative_samples(300, 100)
    assert (unbounded.value, unbounded.low, unbounded.high) == (1.0, 1.0, 2.0)


def test_over_the_training_the_noise_scale_is_averaged_over_the_progress() -> None:
    early, late = NoiseScale(10.0, 8.0, 12.0), NoiseScale(100.0, 60.0, 200.0)
    alone = over_training([(5, early)], 10, 1000)
    assert alone.value == pytest.approx(10)
    assert (alone.low, alone.high) == (8.0, 12.0)
    # From 10 at once to 100: half of 2000 steps makes 1 / (1 + 1) of a step without noise, the other half 1 / 11.
    sudden = over_training([(1000, early), (1000, late)], 10, 2000)
    assert sudden.value == pytest.approx((10 / 2 + 100 / 11) / (1 / 2 + 1 / 11))
    assert (sudden.low, sudden.high) == (8.0, 200.0)
    assert over_training([(0, early), (10, late)], 10, 1e9).value == pytest.approx(100, rel=1e-3)


def test_what_is_not_bounded_stays_so_over_the_training() -> None:
    early, hidden = NoiseScale(10.0, 8.0, 12.0), NoiseScale(None, 40.0, None)
    assert over_training([(0, hidden)], 10, 100) == hidden
    both = over_training([(0, early), (0, hidden)], 10, 100)
    assert both.value == pytest.approx(40)
    assert (both.low, both.high) == (8.0, None)
