"""Times carried over from one GPU to another by Habitat's wave scaling."""

from __future__ import annotations

import pytest

from skyline.predict.wave_scaling import Rates, carried_factor, share_of_memory

SMALL, LARGE = Rates(300.0, 8.0, 40), Rates(1500.0, 20.0, 100)


def test_memory_decides_all_without_arithmetic_and_half_at_the_ridge():
    assert share_of_memory(0.0, 13.0) == 1.0
    assert share_of_memory(13.0, 13.0) == pytest.approx(0.5)
    assert share_of_memory(130.0, 13.0) == pytest.approx(0.05)


def test_kernels_of_many_waves_scale_by_bandwidth_or_by_peak():
    assert carried_factor(SMALL, LARGE, 1.0) == pytest.approx(300 / 1500)
    assert carried_factor(SMALL, LARGE, 0.0) == pytest.approx(8 / 20)
    between = carried_factor(SMALL, LARGE, 0.5)
    assert between == pytest.approx((300 / 1500 * 8 / 20) ** 0.5)
    assert carried_factor(SMALL, LARGE, 0.5) * carried_factor(LARGE, SMALL, 0.5) == pytest.approx(1.0)


def test_a_kernel_that_fills_neither_gpu_gains_nothing_from_more_multiprocessors():
    same_speed = Rates(300.0, 16.0, 80)
    assert carried_factor(SMALL, same_speed, 0.0, blocks=30) == pytest.approx(1.0)
    assert carried_factor(SMALL, same_speed, 0.0, blocks=4000) == pytest.approx(0.5)
    assert carried_factor(SMALL, same_speed, 0.0, blocks=41) == pytest.approx(0.5)
