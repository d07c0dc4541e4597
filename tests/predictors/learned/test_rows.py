"""Physics of work that moves bytes, row by row or not."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from skyline.predict.gpus import gpu_named
from skyline_predictors.kernel_row import rowwise
from skyline_predictors.learned.family import Family
from skyline_predictors.learned.fitting import START, fitted
from skyline_predictors.learned.machine import machine
from skyline_predictors.learned.measurements import KernelMeasurements
from skyline_predictors.learned.predictor import LearnedPredictor
from skyline_predictors.learned.stream import RowKernel, Streams, physics_us


def of(name: str):
    return machine(gpu_named(name), START.product.rates)


def rows_us(kernel: RowKernel, rows: int, length: int, gpu, constants=START.normalization) -> float:
    elements = np.array([float(rows * length)])
    streams = Streams(elements, np.array([float(length)]), 8 * elements, 0 * elements)
    return float(physics_us(streams, gpu, constants, kernel)[0])


def test_short_rows_take_instructions_and_long_ones_bytes():
    gpu = of("P100")
    # Of so many elements, the shorter the rows the more of them, each with a sum over its threads.
    assert rows_us(RowKernel.NORM, 64000, 256, gpu) > 1.5 * rows_us(RowKernel.NORM, 4000, 4096, gpu)
    faster = replace(gpu, warps_per_us=1e9)
    assert rows_us(RowKernel.NORM, 64000, 256, faster) < rows_us(RowKernel.NORM, 64000, 256, gpu) / 2


def test_rows_that_the_cache_holds_are_not_read_again():
    large = replace(of("T4"), row_bytes=1e9, warps_per_us=1e9)
    small = replace(large, row_bytes=1e3)
    assert rows_us(RowKernel.NORM, 64000, 4096, small) > 1.3 * rows_us(RowKernel.NORM, 64000, 4096, large)


def test_softmax_reads_rows_twice_more_that_no_warp_holds():
    gpu = replace(of("V100"), row_bytes=1e3, warps_per_us=1e9)
    short, long = (
        rows_us(RowKernel.SOFTMAX, 2**26 // length, length, gpu, START.softmax) for length in (1024, 2048)
    )
    assert long == pytest.approx(2 * short, rel=0.01)


@pytest.mark.parametrize(("name", "fits", "too_long"), [("V100", 4096, 12288), ("A100-80GB", 6400, 16384)])
def test_rows_come_again_from_the_first_level_where_it_is_large(name, fits, too_long):
    gpu = replace(of(name), warps_per_us=1e9)
    short, long = (
        rows_us(RowKernel.SOFTMAX, 2**29 // length, length, gpu, START.softmax) for length in (fits, too_long)
    )
    assert long > 1.7 * short


def test_memory_delivers_rows_as_it_delivers_other_work():
    start = msgspec.structs.replace(
        START, elementwise=msgspec.structs.replace(START.elementwise, stacked_share=0.5)
    )
    streams = Streams(*(np.full(9, 2.0**20) for _ in range(3)), np.zeros(9))
    gpu, ones = gpu_named("V100"), np.ones(9)
    measured = KernelMeasurements(gpu, streams, 50 * ones, 40 * ones, ones, ones, ones, ones > 0)
    physics, _ = fitted(Family.SOFTMAX, [measured], start, 50, seed=1)
    assert physics.softmax.stacked_share == 0.5


def test_rows_without_a_kernel_of_their_own_take_their_bytes_alone():
    gpu = of("A100-80GB")
    assert rows_us(RowKernel.NONE, 64000, 256, gpu) == pytest.approx(rows_us(RowKernel.NONE, 4000, 4096, gpu))


def test_the_first_stacked_memory_delivers_less_of_what_it_states():
    p100, v100 = of("P100"), of("V100")
    assert v100.delivered_bytes_per_us / p100.delivered_bytes_per_us == pytest.approx(1.5)
    (asked,) = ([rowwise("add", 8192, 8192)],)
    fast, slow = (LearnedPredictor().measured_us(asked, gpu_named(name))[0] for name in ("V100", "P100"))
    assert 1.4 < slow / fast < 1.8
