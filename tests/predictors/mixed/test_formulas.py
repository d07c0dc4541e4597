"""Times of kernels that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.predict.gpus import gpu_named
from skyline.trace.record import OperatorShape
from skyline_predictors.mixed.board import board
from skyline_predictors.mixed.by_format import ByFormat
from skyline_predictors.mixed.call_kind import CallKind, call_kind
from skyline_predictors.mixed.predictor import Mixed, spreads, table, values

GPU = gpu_named("RTX 3090")
HALF = "float16"


def product(rows: int, columns: int, inner: int, number_format: str = HALF) -> OperatorShape:
    return OperatorShape(
        "aten::mm",
        ((rows, inner), (inner, columns)),
        (number_format, number_format),
        ((rows, columns),),
        (number_format,),
        2 * rows * columns * inner,
        2 * (rows * inner + inner * columns + rows * columns),
    )


def convolution(image: tuple[int, ...], weight: tuple[int, ...], layout: str = "") -> OperatorShape:
    output = (image[0], weight[0], *image[2:])
    flops = 2 * output[0] * output[1] * output[2] * output[3] * weight[1] * weight[2] * weight[3]
    return OperatorShape(
        "aten::convolution", (image, weight), (HALF, HALF), (output,), (HALF,), flops, 0, layout
    )


def time_us(shape: OperatorShape, gpu=GPU) -> float:
    return Mixed().predict([shape], gpu)[0].time_us.value


def test_graphics_memory_is_slower_on_a_board_with_few_watts_and_stacked_memory_is_not():
    def share(name: str) -> float:
        gpu = gpu_named(name)
        return board(gpu, HALF, values()).bytes_per_us / (gpu.bandwidth_gb_s * 1e3)

    assert share("A100-40GB") == 1
    assert share("RTX 4090") > 0.99
    assert share("RTX PRO 6000 Max-Q") < share("RTX PRO 6000")


def test_a_large_copy_takes_its_bytes_over_the_share_of_the_bandwidth():
    size = (1 << 30,)
    relu = OperatorShape("aten::relu", (size,), (HALF,), (size,), (HALF,), 0, 4 << 30)
    least_us = (4 << 30) / (GPU.bandwidth_gb_s * 1e3)
    assert least_us < time_us(relu) < 1.3 * least_us


def test_a_large_product_comes_near_the_peak_and_not_far_beyond():
    side = 8192
    at_peak_us = 2 * side**3 / (GPU.tflops_fp16 * 1e6)
    assert 0.85 * at_peak_us < time_us(product(side, side, side)) < 1.5 * at_peak_us


def test_a_product_with_one_block_more_than_fits_takes_longer():
    full, more = (
        product(128 * blocks, 128, 4096) for blocks in (GPU.multiprocessors, GPU.multiprocessors + 1)
    )
    assert time_us(more) >= time_us(full)


def test_odd_sizes_run_at_their_share_of_the_speed():
    halved = Mixed({**values(), "unaligned": 0.5})
    even, odd = halved.predict([product(8192, 8192, 8192), product(8191, 8191, 8191)], GPU)
    assert odd.time_us.value == pytest.approx(2 * even.time_us.value, rel=0.1)


def test_images_with_channels_first_are_turned_for_convolutions_on_matrix_units():
    first = convolution((256, 64, 56, 56), (64, 64, 3, 3))
    assert time_us(first) > time_us(replace(first, layout="channels last"))


def test_turning_images_costs_nothing_where_there_are_no_matrix_units():
    first = replace(
        convolution((256, 64, 56, 56), (64, 64, 3, 3)), dtypes=("float32",) * 2, output_dtypes=("float32",)
    )
    volta = gpu_named("V100-SXM")
    assert time_us(first, volta) == pytest.approx(time_us(replace(first, layout="channels last"), volta))


@pytest.mark.parametrize(
    ("image", "weight", "kind"),
    [
        ((8, 64, 56, 56), (64, 64, 3, 3), CallKind.CONVOLUTION),
        ((8, 64, 56, 56), (64, 1, 3, 3), CallKind.DEPTHWISE),
        ((8, 64, 56, 56), (128, 1, 3, 3), CallKind.DEPTHWISE),
        ((8, 64, 56, 56), (64, 4, 3, 3), CallKind.GROUPED),
    ],
)
def test_convolutions_are_told_apart_by_their_groups(image, weight, kind):
    assert call_kind(convolution(image, weight)) is kind


def gradients(forward: OperatorShape) -> OperatorShape:
    inputs = (forward.outputs[0], *forward.inputs)
    return OperatorShape(
        "aten::convolution_backward", inputs, (HALF,) * 3, forward.inputs, (HALF, HALF), 2 * forward.flops, 0,
        forward.layout,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("usual", "slow"),
    [
        # (channels, weights): channels in a number that is no multiple of eight, and taps beyond cuDNN's kernels.
        ((128, (128, 1, 3, 3)), (130, (130, 1, 3, 3))),
        ((128, (128, 1, 7, 7)), (128, (128, 1, 9, 9))),
        # Groups of other numbers of channels and filters, few groups, wide groups.
        ((256, (256, 8, 3, 3)), (256, (512, 8, 3, 3))),
        ((512, (512, 16, 3, 3)), (512, (512, 32, 3, 3))),
        ((2048, (2048, 32, 3, 3)), (2048, (2048, 64, 3, 3))),
    ],
)
def test_channels_last_without_kernels_for_the_groups_are_slow(usual, slow):
    times = [
        time_us(gradients(convolution((64, channels, 28, 28), weight, "channels last")))
        / (weight[0] * weight[1] * weight[2] ** 2)
        for channels, weight in (usual, slow)
    ]
    assert times[1] > 1.5 * times[0]


def test_gradients_of_few_depthwise_weights_leave_multiprocessors_idle():
    few, many = (
        time_us(gradients(convolution((256, channels, 56, 56), (channels, 1, 3, 3)))) for channels in (8, 64)
    )
    assert few > 0.3 * many


def batch_norm(channels: int, side: int, outputs: int) -> OperatorShape:
    image, one = (256, channels, side, side), (channels,)
    moved = 4 * 256 * channels * side**2
    formats = (HALF, "float32", "float32")
    return OperatorShape(
        "aten::native_batch_norm", (image, one, one), formats, (image, one, one)[:outputs], formats[:outputs], 0, moved
    )  # fmt: skip


def test_normalization_by_known_statistics_reads_images_once():
    assert time_us(batch_norm(256, 28, 1)) < 0.75 * time_us(batch_norm(256, 28, 3))


def test_normalization_of_few_channels_keeps_few_multiprocessors_busy():
    assert time_us(batch_norm(8, 112, 3)) > 1.5 * time_us(batch_norm(128, 28, 3))


def test_timing_from_outside_shows_more_than_the_kernel():
    shape = product(256, 256, 256)
    kernel = Mixed().predict([shape], GPU)[0].time_us.value
    assert ByFormat().measured_us([shape], GPU)[0] > kernel + 5


def test_the_gradients_of_a_convolution_take_longer_than_the_convolution():
    forward = convolution((64, 64, 56, 56), (64, 64, 3, 3))
    backward = OperatorShape(
        "aten::convolution_backward",
        (forward.outputs[0], *forward.inputs),
        (HALF,) * 3,
        forward.inputs,
        (HALF, HALF),
        2 * forward.flops,
    )
    assert time_us(backward) > 1.5 * time_us(forward)


def test_less_power_makes_products_slower():
    frugal = replace(GPU, board_power_watts=120)
    assert time_us(product(8192, 8192, 8192), frugal) > time_us(product(8192, 8192, 8192))


def test_intervals_hold_the_value():
    answer = Mixed().predict([product(512, 512, 512)], GPU)[0]
    assert answer.time_us.low < answer.time_us.value < answer.time_us.high
    assert answer.measured


def test_every_constant_lies_in_its_range():
    for name, one in table().items():
        assert one.low <= one.value <= one.high, name
    assert set(spreads()) <= {kind.value for kind in CallKind}
    # Boards of the GeForce line boost beyond the clock that is stated.
    assert values()["product_share"] <= 1.15


class _Asked:
    def __init__(self, name: str) -> None:
        self.name = name
        self.shapes: list[OperatorShape] = []

    def basis(self, device) -> str:
        return self.name

    def predict(self, shapes, device):
        self.shapes = list(shapes)
        return Mixed().predict(shapes, device)


def test_plain_float32_goes_to_one_model_and_steps_in_16_bits_to_the_other():
    units, plain = _Asked("units"), _Asked("plain")
    both = ByFormat(units, plain)
    relu = OperatorShape("aten::relu", ((64,),), ("float32",), ((64,),), ("float32",), 0, 512)
    single = product(64, 64, 64, "float32")
    both.predict([single, relu], GPU)
    assert (len(units.shapes), len(plain.shapes)) == (0, 2)
    both.predict([product(64, 64, 64), relu], GPU)
    assert len(units.shapes) == 2
    both.predict([product(64, 64, 64, "tfloat32"), relu], GPU)
    assert (len(units.shapes), len(plain.shapes)) == (1, 1)


def test_gpus_without_matrix_units_are_left_to_the_other_model():
    units, plain = _Asked("units"), _Asked("plain")
    ByFormat(units, plain).predict([product(64, 64, 64)], gpu_named("P100"))
    assert (len(units.shapes), len(plain.shapes)) == (0, 1)
