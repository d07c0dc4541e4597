import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from skyline_predictors.calibrated.predictor import GaussianCorrection

GRID = np.array([[x, y] for x in range(12) for y in range(12)], dtype=float)
STEADY = np.full(len(GRID), 0.02)
CHOICE = np.random.default_rng(3)


def test_a_slope_is_followed():
    known = GaussianCorrection.of(GRID, 0.2 * GRID[:, 0], STEADY)
    values, halves = known.read(np.array([[5.5, 5.5], [10.0, 2.0]]))
    assert np.allclose(values, [1.1, 2.0], atol=0.05)
    assert (halves < 0.2).all()


def test_one_unsteady_measurement_moves_little():
    ratios, spreads = np.full(len(GRID), 0.3), STEADY.copy()
    ratios[70], spreads[70] = 2.0, 1.0
    values, _ = GaussianCorrection.of(GRID, ratios, spreads).read(GRID[70:71])
    assert abs(values[0] - 0.3) < 0.2


def test_intervals_hold_nine_in_ten_of_what_was_left_out():
    noisy = 0.1 * GRID[:, 1] + CHOICE.normal(0, 0.2, len(GRID))
    half = CHOICE.random(len(GRID)) < 0.5
    known = GaussianCorrection.of(GRID[half], noisy[half], STEADY[half])
    values, halves = known.read(GRID[~half])
    inside = np.abs(noisy[~half] - values) <= halves
    assert 0.8 <= inside.mean() <= 0.99


def test_far_away_less_is_known():
    known = GaussianCorrection.of(GRID, CHOICE.normal(0.4, 0.1, len(GRID)), STEADY)
    _, (near, far) = known.read(np.array([[6.0, 6.0], [25.0, 6.0]]))
    assert far > near


def test_few_are_not_taken_for_sure():
    _, halves = GaussianCorrection.of(GRID[:3], np.full(3, 0.1), STEADY[:3]).read(GRID[:1])
    assert halves[0] >= 0.5


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 20), st.floats(-3, 3)), min_size=1, max_size=20), st.floats(-5, 40))
def test_no_answer_lies_far_outside_of_what_was_measured(rows, asked):
    sizes, ratios = np.array([[size] for size, _ in rows]), np.array([ratio for _, ratio in rows])
    values, halves = GaussianCorrection.of(sizes, ratios, np.zeros(len(rows))).read(np.array([[asked]]))
    assert ratios.min() - 0.51 <= values[0] <= ratios.max() + 0.51
    assert np.isfinite(halves).all()
