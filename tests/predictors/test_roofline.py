"""Predictions of the predictor for shapes, and their distance from measured kernels."""

import sys
from pathlib import Path

import pytest

from skyline.predict.gpus import gpu_named, gpus
from skyline.predict.registry import predictor_named
from skyline.trace.record import OperatorShape
from skyline_predictors.roofline import Roofline
from skyline_predictors.shape_reading import convolution_shape, matrix_shape

F32, BF16 = "float32", "bfloat16"


def addmm(rows: int, inner: int, columns: int, number_format: str = F32) -> OperatorShape:
    inputs = ((columns,), (rows, inner), (inner, columns))
    width = 4 if number_format == F32 else 2
    moved = width * (rows * inner + inner * columns + rows * columns)
    flops = 2 * rows * inner * columns
    formats = (number_format,) * 3
    return OperatorShape("aten::addmm", inputs, formats, ((rows, columns),), (number_format,), flops, moved)


def elementwise(count: int, number_format: str = F32) -> OperatorShape:
    width = 4 if number_format == F32 else 2
    return OperatorShape(
        "aten::gelu", ((count,),), (number_format,), ((count,),), (number_format,), count, 2 * width * count
    )


def time_us(shape: OperatorShape, gpu: str) -> float:
    return Roofline().predict([shape], gpu_named(gpu))[0].time_us.value


def test_it_is_installed():
    assert isinstance(predictor_named("roofline"), Roofline)


def test_every_gpu_gets_a_positive_time_inside_its_interval():
    shapes = [addmm(4096, 1024, 4096), elementwise(1 << 20), elementwise(1), addmm(64, 64, 64, BF16)]
    for gpu in gpus():
        for answer in Roofline().predict(shapes, gpu):
            assert 0 < answer.time_us.low <= answer.time_us.value <= answer.time_us.high


def test_no_kernel_takes_no_time_at_all():
    assert time_us(elementwise(1), "H100") == pytest.approx(2.0)


def test_work_that_moves_bytes_takes_as_long_as_its_bytes():
    assert time_us(elementwise(1 << 28), "T4") == pytest.approx(2 * time_us(elementwise(1 << 27), "T4"))
    ratio = time_us(elementwise(1 << 28), "A100-80GB") / time_us(elementwise(1 << 28), "H100")
    assert ratio == pytest.approx(3350 / 1935)


def test_16_bit_products_are_faster_on_matrix_units_and_only_there():
    assert time_us(addmm(8192, 8192, 8192, BF16), "A100-80GB") < 0.2 * time_us(
        addmm(8192, 8192, 8192), "A100-80GB"
    )
    same = time_us(addmm(8192, 8192, 8192, BF16), "P4") / time_us(addmm(8192, 8192, 8192), "P4")
    assert same == pytest.approx(1.0, rel=1e-3)


def test_formats_without_measurements_are_said_to_be_unmeasured_and_less_sure():
    plain, narrow = Roofline().predict(
        [addmm(4096, 4096, 4096), addmm(4096, 4096, 4096, BF16)], gpu_named("H100")
    )
    assert plain.measured
    assert not narrow.measured
    assert narrow.time_us.high / narrow.time_us.value > plain.time_us.high / plain.time_us.value
    assert narrow.time_us.low / narrow.time_us.value < plain.time_us.low / plain.time_us.value


def test_the_product_is_read_from_output_and_arithmetic():
    product = matrix_shape(addmm(32, 64, 128))
    assert (product.batch, product.rows, product.columns, product.inner) == (1, 32, 128, 64)
    batched = OperatorShape(
        "aten::bmm", ((8, 32, 64), (8, 64, 16)), (F32,) * 2, ((8, 32, 16),), (F32,), 2 * 8 * 32 * 64 * 16
    )
    product = matrix_shape(batched)
    assert (product.batch, product.rows, product.columns, product.inner) == (8, 32, 16, 64)


def test_a_backward_convolution_takes_longer_than_the_forward_one():
    image, weight, output = (32, 64, 56, 56), (128, 64, 3, 3), (32, 128, 56, 56)
    once = 2 * 32 * 128 * 56 * 56 * 64 * 9
    forward = OperatorShape("aten::convolution", (image, weight), (F32,) * 2, (output,), (F32,), once, 10**8)
    backward = OperatorShape(
        "aten::convolution_backward",
        (output, image, weight),
        (F32,) * 3,
        (image, weight),
        (F32,) * 2,
        2 * once,
        10**8,
    )
    assert convolution_shape(forward) == convolution_shape(backward)
    assert time_us(backward, "V100") == pytest.approx(2 * time_us(forward, "V100"))


def test_groups_are_separate_products():
    image, weight, output = (8, 64, 28, 28), (64, 1, 3, 3), (8, 64, 28, 28)
    shape = OperatorShape(
        "aten::convolution", (image, weight), (F32,) * 2, (output,), (F32,), 2 * 8 * 64 * 28 * 28 * 9
    )
    product = convolution_shape(shape)
    assert (product.batch, product.columns, product.inner) == (64, 1, 9)
    assert product.flops == shape.flops


def test_the_basis_names_what_was_measured_and_what_was_not():
    assert "own generation unmeasured" in Roofline().basis(gpu_named("H100"))
    assert "own generation unmeasured" not in Roofline().basis(gpu_named("T4"))
    assert "unmeasured" in Roofline().basis(gpu_named("T4"))


def test_it_is_better_than_the_data_sheet_on_gpus_that_were_left_out(shared_data):
    folder = shared_data / "gpu_latency"
    if not folder.is_dir():
        pytest.skip(f"no measured kernels at {folder}")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    try:
        from gpu_latency import UNSEEN, measured
        from roofline_accuracy import outcome
    finally:
        sys.path.pop(0)
    rows = [row for row in measured(folder, UNSEEN) if row.time_us >= 100][::10]
    outcomes = [outcome(row, Roofline()) for row in rows]
    own = sum(abs(one.ratio - 1) for one in outcomes) / len(outcomes)
    plain = sum(abs(one.data_sheet_ratio - 1) for one in outcomes) / len(outcomes)
    assert own < 0.25
    assert own < 0.75 * plain
    assert sum(one.covered for one in outcomes) / len(outcomes) > 0.85
