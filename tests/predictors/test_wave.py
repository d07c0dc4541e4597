"""Times carried over from measured kernels of another GPU."""

import csv
import gzip

import numpy as np
import pytest

from skyline.predict.gpus import gpu_named, gpus
from skyline.predict.wave_scaling import Rates, carried_factor, share_of_memory
from skyline.trace.shape import OperatorShape
from skyline_predictors.hierarchy import Hierarchy
from skyline_predictors.measured_kernels import MeasuredKernels, sources
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.wave import Wave

F32 = "float32"
SMALL, LARGE = Rates(300.0, 8.0, 40), Rates(1500.0, 20.0, 100)


def product(rows: int, inner: int, columns: int, number_format: str = F32) -> OperatorShape:
    inputs, out = ((rows, inner), (inner, columns)), ((rows, columns),)
    moved = 4 * (rows * inner + inner * columns + rows * columns)
    flops = 2 * rows * inner * columns
    return OperatorShape("aten::mm", inputs, (number_format,) * 2, out, (number_format,), flops, moved)


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


def test_near_kernels_count_and_far_ones_give_the_median():
    held = MeasuredKernels(
        np.array([[1.0, 1.0], [10.0, 10.0], [20.0, 20.0], [30.0, 30.0], [40.0, 40.0]]),
        np.array([1.0, 0.0, 0.1, 0.2, 0.3]),
    )
    near, far = held.near(np.array([[1.0, 1.0], [1000.0, 1000.0]])).tolist()
    assert near > 0.8
    assert far == pytest.approx(0.2, abs=0.05)


def test_the_source_is_the_gpu_itself_or_one_like_it():
    wave = Wave()
    for name in sources():
        assert wave.source(gpu_named(name)).name == name
    assert wave.source(gpu_named("A100-80GB")).architecture == "Ampere"
    assert wave.source(gpu_named("H100")).architecture == "Ampere"
    assert "carried over" in wave.basis(gpu_named("H100"))
    assert "itself" in wave.basis(gpu_named("V100"))


def test_what_was_not_measured_is_left_to_the_traffic_model():
    narrow = product(4096, 4096, 4096, "bfloat16")
    total = OperatorShape("aten::sum", ((1 << 20,),), (F32,), ((1,),), (F32,), 0, 4 << 20)
    for gpu in ("V100", "H100"):
        both = [made.predict([narrow, total], gpu_named(gpu)) for made in (Wave(), Hierarchy())]
        assert [one.time_us for one in both[0]] == [one.time_us for one in both[1]]


def test_every_gpu_gets_a_positive_time_inside_its_interval():
    shapes = [
        product(512, 512, 512),
        OperatorShape("aten::relu", ((1 << 20,),), (F32,), ((1 << 20,),), (F32,)),
    ]
    for gpu in gpus():
        for answer in Wave().predict(shapes, gpu):
            assert 0 < answer.time_us.low <= answer.time_us.value <= answer.time_us.high
            assert answer.measured


def test_the_measured_gpu_itself_is_met_closely(shared_data):
    """Shapes that ship with nothing: those of the test file of the same GPUs."""
    path = shared_data / "gpu_latency" / "kernels_test_seen_gpus.csv.gz"
    if not path.exists():
        pytest.skip(f"no measured kernels at {path}")
    errors: list[float] = []
    shapes, taken = [], []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["op"] == "linear" and row["gpu"] == "V100" and float(row["latency_ms"]) > 0.2:
                shapes.append(product(*(int(row[name]) for name in "mkn")))
                taken.append(float(row["latency_ms"]) * 1e3)
    said = Wave().measured_us(shapes, gpu_named("V100"))
    errors = [abs(one / real - 1) for one, real in zip(said, taken, strict=True)]
    assert len(errors) > 500
    assert np.mean(errors) < 0.12
    assert Wave().spread(OperatorClass.MATRIX, gpu_named("V100")).high < 2.0
