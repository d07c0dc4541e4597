"""The least time of batch normalization with one block of threads per channel."""

from __future__ import annotations

import pytest

from skyline.predict.gpus import gpu_named
from skyline.trace.record import OperatorShape
from skyline_predictors.mixed.by_format import ByFormat, least_us

H200 = gpu_named("H200")
FORWARD, BACKWARD = "aten::native_batch_norm", "aten::native_batch_norm_backward"


def norm(operator: str, *size: int, layout: str = "") -> OperatorShape:
    tensors = 1 if operator == FORWARD else 2
    inputs = (*[size] * tensors, (size[1],))
    return OperatorShape(
        operator, inputs, ("float32",) * len(inputs), (size,), ("float32",), 0, 8 * size[0] * size[1], layout
    )


@pytest.mark.parametrize(
    ("operator", "size", "measured_us"),
    [
        (FORWARD, (64, 64, 56, 56), 118.1),
        (FORWARD, (64, 512, 28, 28), 102.1),
        (BACKWARD, (64, 64, 112, 112), 1156.7),
        (BACKWARD, (64, 256, 56, 56), 370.5),
    ],
)
def test_layers_of_a_recording_take_the_time_of_their_blocks(operator, size, measured_us) -> None:
    assert least_us(norm(operator, *size), H200) == pytest.approx(measured_us, rel=0.15)


def test_few_channels_leave_most_of_the_gpu_idle() -> None:
    few, many = norm(FORWARD, 64, 32, 56, 56), norm(FORWARD, 64, 64, 56, 56)
    assert least_us(few, H200) == pytest.approx(least_us(many, H200))


@pytest.mark.parametrize(
    "shape",
    [
        norm(FORWARD, 64, 64, 56, 56, layout="channels last"),
        norm(FORWARD, 64, 256, 14, 14),
        norm("aten::native_layer_norm", 64, 64, 56, 56),
        OperatorShape("aten::relu", ((64, 64, 56, 56),), ("float32",)),
    ],
)
def test_other_calls_have_no_such_limit(shape: OperatorShape) -> None:
    assert least_us(shape, H200) == 0


def test_a_gpu_with_little_bandwidth_for_each_multiprocessor_is_predicted_as_before() -> None:
    shape, gpu = norm(BACKWARD, 64, 64, 56, 56), gpu_named("RTX 3090")
    predictor = ByFormat()
    assert predictor.predict([shape], gpu)[0] == next(iter(predictor._by_format([shape], gpu)))


def test_the_interval_is_lifted_with_the_time() -> None:
    shape = norm(BACKWARD, 64, 64, 56, 56)
    time = ByFormat().predict([shape], H200)[0].time_us
    assert time.value == pytest.approx(least_us(shape, H200))
    assert time.low < time.value < time.high
