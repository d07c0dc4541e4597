import numpy as np
import pytest

from skyline_predictors.constants import constants
from skyline_predictors.matrix_time import MatrixShape, Throughput, matrix_us

GPU = Throughput(100, 20e6, 1e6)


def time_us(rows: int, columns: int, inner: int, gpu: Throughput = GPU, batch: int = 1) -> float:
    moved = 4 * batch * (rows * inner + inner * columns + rows * columns)
    shape = MatrixShape(batch, rows, columns, inner)
    return float(matrix_us([shape], np.array([float(moved)]), 4, gpu, constants().matrix)[0])


def test_a_large_product_comes_close_to_the_sustained_rate():
    shape = MatrixShape(1, 8192, 8192, 8192)
    at_peak = shape.flops / GPU.flop_per_us
    assert 0.8 * at_peak < time_us(8192, 8192, 8192) < 1.5 * at_peak


def test_time_never_falls_as_a_side_grows():
    for side in (64, 128, 1000, 4096):
        assert time_us(side, 512, 512) <= time_us(side + 64, 512, 512) * 1.0001
        assert time_us(512, 512, side) <= time_us(512, 512, side + 64) * 1.0001


def test_the_last_wave_costs_as_much_as_a_full_one():
    """One block more than the multiprocessors can hold at once takes a wave more."""
    unbound = Throughput(100, 20e6, 1e9)
    full = time_us(32, 32, 500, unbound, batch=400)
    assert time_us(32, 32, 500, unbound, batch=390) == pytest.approx(full, rel=0.02)
    assert time_us(32, 32, 500, unbound, batch=401) > 1.2 * full


def test_a_thin_product_is_bound_by_memory():
    moved = 4 * (8192 * 8192 + 2 * 8192)
    bound = moved / (GPU.bytes_per_us * constants().matrix.bandwidth_share)
    assert time_us(8192, 1, 8192) >= bound
    faster = Throughput(100, 20e6, 2e6)
    assert time_us(8192, 1, 8192, faster) < time_us(8192, 1, 8192)
