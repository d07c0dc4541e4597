"""Times on a processor from shapes alone, by hand: 4 threads at 3 GHz whose vectors hold 16 numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.calibrate.machine import CalibratedDevice
from skyline.trace.record import OperatorShape
from skyline_predictors.processor import _DRAW_US, Processor
from skyline_predictors.processors import _spec

WIDE = _spec(CalibratedDevice("Example CPU", "cpu", 4, 2**34, 3000, 4 * 3.0 * 64, 2**25), "wide")
NARROW = replace(WIDE, tflops_fp32=WIDE.tflops_fp32 / 2)


def convolution(channels: int, filters: int, groups: int = 1, *, backward: bool = False) -> OperatorShape:
    image, weight = (32, channels, 64, 64), (filters, channels // groups, 3, 3)
    output = (32, filters, 64, 64)
    flops = 2 * 32 * 64 * 64 * filters * channels // groups * 9
    if backward:
        three = (output, image, weight)
        return OperatorShape(
            "aten::convolution_backward",
            three,
            ("float32",) * 3,
            (image, weight),
            ("float32",) * 2,
            2 * flops,
        )
    return OperatorShape("aten::conv2d", (image, weight), ("float32",) * 2, (output,), ("float32",), flops)


def copied(size: int) -> OperatorShape:
    return OperatorShape("aten::relu", ((size,),), ("float32",), ((size,),), ("float32",), 0, 8 * size)


def time_us(shape: OperatorShape, device=WIDE) -> float:
    (answer,) = Processor().predict([shape], device)
    return answer.time_us.value


def test_24_channels_take_as_long_as_32_where_a_vector_holds_16() -> None:
    assert time_us(convolution(24, 24)) == pytest.approx(time_us(convolution(32, 32)))
    assert time_us(convolution(24, 24, backward=True)) == pytest.approx(
        time_us(convolution(32, 32, backward=True))
    )
    assert time_us(convolution(40, 40)) > 2.2 * time_us(convolution(32, 32))


def test_vectors_of_eight_hold_24_channels_without_a_rest() -> None:
    assert time_us(convolution(24, 24), NARROW) == pytest.approx(
        (24 / 32) ** 2 * time_us(convolution(32, 32), NARROW), rel=0.01
    )
    assert time_us(convolution(20, 32), NARROW) == pytest.approx(time_us(convolution(24, 32), NARROW))


def test_the_channels_of_a_coloured_image_are_not_filled_up() -> None:
    image, none = time_us(convolution(3, 64)), time_us(convolution(16, 64))
    assert image < 0.3 * none
    assert time_us(convolution(4, 64)) == pytest.approx(none)


def dropped(size: int, name: str = "aten::native_dropout") -> OperatorShape:
    sizes, formats = ((size,), (size,)), ("float32", "bool")
    return OperatorShape(name, ((size,),), ("float32",), sizes, formats, 0, 9 * size)


def test_one_thread_draws_the_random_numbers_of_a_dropout_except_on_intels_processors() -> None:
    size = 1 << 20
    moved_us = time_us(dropped(size, "aten::native_dropout_backward"))
    drawn_us = time_us(dropped(size)) - moved_us
    assert drawn_us == pytest.approx(size * _DRAW_US["dropout"])
    intel = replace(WIDE, full_name="Intel(R) Xeon(R) Processor, 4 threads")
    assert time_us(dropped(size), intel) - moved_us == pytest.approx(drawn_us / 4)
    filled = OperatorShape("aten::uniform_", ((size,),), ("float32",), ((size,),), ("float32",), 0, 4 * size)
    assert time_us(filled, intel) == pytest.approx(time_us(filled))
    (answer,) = Processor().predict([dropped(size)], WIDE)
    assert answer.group == "random numbers"


def test_convolutions_reach_a_larger_share_of_the_nominal_peak_of_amds_processors() -> None:
    amd = replace(WIDE, full_name="AMD EPYC, 4 threads")
    assert time_us(convolution(64, 64), amd) == pytest.approx(time_us(convolution(64, 64)) / 2, rel=0.01)
    assert time_us(copied(1 << 20), amd) == time_us(copied(1 << 20))


def test_groups_keep_their_arithmetic() -> None:
    assert time_us(convolution(72, 72, 3)) == pytest.approx(
        (72 / 96) ** 2 * time_us(convolution(96, 96, 3)), rel=0.05
    )


def test_the_time_has_no_step_where_an_operand_outgrows_the_cache() -> None:
    fits, exceeds = 2**25 // 8, 2**25 // 8 + 1024
    assert time_us(copied(exceeds)) == pytest.approx(time_us(copied(fits)), rel=0.01)
    # Far beyond it the bandwidth is that of memory: 32 GB/s.
    more_us = time_us(copied(2 * exceeds)) - time_us(copied(exceeds))
    assert more_us == pytest.approx(8 * exceeds / 32e3, rel=0.01)
