"""Intervals of steps: as wide as the kind of the step and its GPU need."""

from __future__ import annotations

from skyline.predict.gpus import gpu_named
from skyline.trace.record import OperatorShape
from skyline_predictors.mixed.step_width import StepKind, step_kind, step_widths, width_factor


def shape(operator: str) -> OperatorShape:
    size = (64, 64)
    return OperatorShape(operator, (size,), ("float16",), (size,), ("float16",), 0, 16384)


def convolution(layout: str) -> OperatorShape:
    image, weight = (8, 16, 32, 32), (16, 16, 1, 1)
    half = "float16"
    return OperatorShape(
        "aten::convolution", (image, weight), (half, half), (image,), (half,), 1 << 22, 524800, layout
    )


def test_backward_calls_make_a_step_training_and_joined_kernels_make_it_compiled():
    relu, joined = shape("aten::relu"), shape("inductor::pointwise")
    assert step_kind([relu]) is StepKind.INFERENCE
    assert step_kind([relu, joined]) is StepKind.COMPILED
    assert step_kind([joined, shape("aten::threshold_backward")]) is StepKind.TRAINING


def test_the_first_convolution_says_in_which_layout_images_come():
    relu, first, last = shape("aten::relu"), convolution(""), convolution("channels last")
    assert step_kind([relu, last, first]) is StepKind.INFERENCE_LAST
    assert step_kind([first, last]) is StepKind.INFERENCE
    assert step_kind([last, shape("aten::threshold_backward")]) is StepKind.TRAINING_LAST
    assert step_kind([last, shape("inductor::pointwise")]) is StepKind.COMPILED


def test_a_gpu_without_measured_steps_of_the_kind_has_a_factor_of_its_own():
    widths = step_widths()
    assert set(widths) == set(StepKind)
    for one in widths.values():
        assert 0 < one.seen <= one.unseen
        assert all(gpu_named(name).name == name for name in one.gpus)
    relu = [shape("aten::relu")]
    assert width_factor(relu, gpu_named("RTX 4090")) == widths[StepKind.INFERENCE].seen
    assert width_factor(relu, gpu_named("H100")) == widths[StepKind.INFERENCE].unseen
    training = [shape("aten::threshold_backward")]
    assert width_factor(training, gpu_named("RTX 4090")) == widths[StepKind.TRAINING].unseen
