"""What the traffic model says of shapes: physics that has to hold whatever the constants are."""

import pytest

from skyline.predict.gpus import gpu_named, gpus
from skyline.trace.shape import OperatorShape
from skyline_predictors.hierarchy import Hierarchy

F32, BF16 = "float32", "bfloat16"


def product(rows: int, inner: int, columns: int, number_format: str = F32) -> OperatorShape:
    width = 4 if number_format == F32 else 2
    moved = width * (rows * inner + inner * columns + rows * columns)
    inputs = ((rows, inner), (inner, columns))
    out = ((rows, columns),)
    flops = 2 * rows * inner * columns
    return OperatorShape("aten::mm", inputs, (number_format,) * 2, out, (number_format,), flops, moved)


def by_row(operator: str, rows: int, columns: int) -> OperatorShape:
    size = (rows, columns)
    return OperatorShape(f"aten::{operator}", (size,), (F32,), (size,), (F32,), 0, 8 * rows * columns)


def convolution(channels: int, filters: int, size: int, *, kernel: int = 3, stride: int = 1) -> OperatorShape:
    across = size // stride
    image, weight, out = (
        (16, channels, size, size),
        (filters, channels, kernel, kernel),
        (16, filters, across, across),
    )
    flops = 2 * 16 * filters * across**2 * channels * kernel**2
    moved = 4 * (16 * channels * size**2 + filters * channels * kernel**2 + 16 * filters * across**2)
    return OperatorShape("aten::convolution", (image, weight), (F32,) * 2, (out,), (F32,), flops, moved)


def attention(length: int, *, backward: bool = False) -> OperatorShape:
    size = (4, 16, length, 128)
    flops = 4 * 4 * 16 * length**2 * 128
    name = "aten::_scaled_dot_product_flash_attention"
    if backward:
        inputs, outputs = (size,) * 5, (size,) * 3
        return OperatorShape(f"{name}_backward", inputs, (BF16,) * 5, outputs, (BF16,) * 3, flops * 5 // 2)
    return OperatorShape(name, (size,) * 3, (BF16,) * 3, (size,), (BF16,), flops)


def time_us(shape: OperatorShape, gpu: str) -> float:
    return Hierarchy().predict([shape], gpu_named(gpu))[0].time_us.value


def test_every_gpu_gets_a_positive_time_inside_its_interval():
    shapes = [
        product(4096, 1024, 4096),
        product(64, 64, 64, BF16),
        by_row("_softmax", 512, 4096),
        by_row("native_layer_norm", 1, 1),
        convolution(64, 128, 28),
        attention(1024),
        attention(1024, backward=True),
        OperatorShape("aten::gelu", ((),), (F32,), ((),), (F32,)),
    ]
    for gpu in gpus():
        for answer in Hierarchy().predict(shapes, gpu):
            assert 0 < answer.time_us.low <= answer.time_us.value <= answer.time_us.high


@pytest.mark.parametrize("gpu", ["T4", "A100-80GB", "H100", "L4"])
@pytest.mark.parametrize("number_format", [F32, BF16])
def test_nothing_is_faster_than_the_stated_peak(gpu, number_format):
    spec = gpu_named(gpu)
    peak = (spec.tflops_bf16 if number_format == BF16 else None) or spec.tflops_fp32
    for side in (512, 2048, 8192):
        shape = product(side, side, side, number_format)
        assert time_us(shape, gpu) >= shape.flops / (peak * 1e6)


def test_a_product_takes_no_less_when_any_side_grows():
    for rows, inner, columns in ((512, 512, 512), (4096, 64, 4096), (128, 4096, 128)):
        now = time_us(product(rows, inner, columns), "V100")
        assert time_us(product(2 * rows, inner, columns), "V100") >= now * 0.999
        assert time_us(product(rows, inner, 2 * columns), "V100") >= now * 0.999


def test_data_that_the_cache_holds_come_faster_than_from_memory():
    small, large = (
        OperatorShape("aten::relu", ((n,),), (F32,), ((n,),), (F32,), 0, 8 * n) for n in (1 << 20, 1 << 28)
    )
    per_byte = [time_us(shape, "A100-80GB") / shape.bytes_moved for shape in (small, large)]
    assert per_byte[0] < 0.8 * per_byte[1]
    assert per_byte[1] >= 1 / (gpu_named("A100-80GB").bandwidth_gb_s * 1e3)


def test_rows_that_are_read_again_take_longer_than_a_pass_over_them():
    passing = OperatorShape("aten::relu", ((1 << 15, 8192),), (F32,), ((1 << 15, 8192),), (F32,), 0, 8 << 28)
    again = by_row("native_layer_norm", 1 << 15, 8192)
    assert time_us(again, "V100") > time_us(passing, "V100") * 0.999


def test_small_filters_need_less_arithmetic_than_their_definition():
    plain = Hierarchy().kernels_us([convolution(256, 256, 56, kernel=5)], gpu_named("V100"), [F32])[0] / 25
    small = Hierarchy().kernels_us([convolution(256, 256, 56)], gpu_named("V100"), [F32])[0] / 9
    assert small < 0.8 * plain


def test_a_backward_convolution_takes_longer_than_the_forward_one():
    forward = convolution(64, 128, 28)
    (out,), (image, weight) = forward.outputs, forward.inputs
    backward = OperatorShape(
        "aten::convolution_backward",
        (out, image, weight),
        (F32,) * 3,
        (image, weight),
        (F32,) * 2,
        2 * forward.flops,
        2 * forward.bytes_moved,
    )
    assert time_us(backward, "V100") > time_us(forward, "V100")


def test_boards_of_little_power_do_not_hold_their_peak_for_long():
    """A T4 and a V100 are of one process; the T4 has the lower share of its peak, and more of it for a moment."""
    shape = product(8192, 8192, 8192)

    def share(gpu: str) -> float:
        return shape.flops / time_us(shape, gpu) / (gpu_named(gpu).tflops_fp32 * 1e6)

    assert share("T4") < 0.7 * share("V100")
    short, long = product(512, 512, 512), product(8192, 8192, 8192)
    model, gpu = Hierarchy(), gpu_named("T4")
    gained = [
        model.fastest_us([one], gpu)[0] / model.kernels_us([one], gpu, [F32])[0] for one in (short, long)
    ]
    assert gained[0] < gained[1] <= 1.0


def test_what_was_not_measured_is_said_and_less_sure():
    plain, narrow, fused = Hierarchy().predict(
        [product(4096, 4096, 4096), product(4096, 4096, 4096, BF16), attention(2048)], gpu_named("A100-80GB")
    )
    assert plain.measured
    assert not narrow.measured
    assert not fused.measured
    assert narrow.time_us.high / narrow.time_us.value > plain.time_us.high / plain.time_us.value
    assert "own generation unmeasured" in Hierarchy().basis(gpu_named("H100"))
    assert "own generation unmeasured" not in Hierarchy().basis(gpu_named("T4"))


def test_answers_do_not_depend_on_what_else_is_asked():
    shapes = [product(100, 200, 300), by_row("_softmax", 64, 64), convolution(3, 64, 56, kernel=7, stride=2)]
    together = [one.time_us.value for one in Hierarchy().predict(shapes, gpu_named("P100"))]
    assert together == pytest.approx([time_us(shape, "P100") for shape in shapes])
