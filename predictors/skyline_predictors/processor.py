"""Operator times on a processor from shapes alone: arithmetic and traffic at typical shares of its limits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorTime
from skyline.trace.record import OperatorShape
from skyline_predictors.calibrated.family import convolved, is_grouped
from skyline_predictors.number_format import ELEMENT_BYTES
from skyline_predictors.operator_class import OperatorClass, operator_class

_OVERHEAD_US = 2.0
"""Dispatch of one operator. With several threads, also their start and end."""
_SHARE = {
    OperatorClass.MATRIX: 0.6,
    OperatorClass.CONVOLUTION: 0.4,
    OperatorClass.ATTENTION: 0.3,
    OperatorClass.RECURRENT: 0.3,
}
_AMD_CONVOLUTIONS = 0.8
"""Share for convolutions on AMD's processors, whose clock is far above the nominal one: 1.25 was seen with
AVX-512 (``sweep_curves``). Other vector units were not measured."""
_CACHE_FACTOR = 3.0
"""Speed of the shared cache relative to memory."""
_TRAFFIC = {OperatorClass.SOFTMAX: 2.0, OperatorClass.NORMALIZATION: 1.5}
_SPREAD = (0.4, 2.5)
_RANDOM = "random numbers"
"""The group of operators that draw random numbers."""
_FLOP_PER_LANE_AND_CLOCK = 4
"""The peak counts two units with multiply-add, for each number in a vector."""
_MOST_LANES = 16
_DRAW_US = {
    "dropout": 4.5e-3,
    "bernoulli": 4.5e-3,
    "::rand": 2e-3,
    "::uniform_": 2e-3,
    "::normal_": 2.5e-3,
    "::exponential_": 15e-3,
}
"""Time of a random number of PyTorch's generator in µs, by one thread: measured on an AMD EPYC with AVX-512,
PyTorch 2.13."""
_DRAWN_IN_PARALLEL = ("dropout", "bernoulli")
"""On Intel's processors PyTorch draws these in its threads with MKL. This was not measured."""
_UNPADDED_CHANNELS = 3
"""Channels of a colour image: oneDNN has kernels for first layers that read their input without padding."""


class Processor:
    """The predictor. Its shares are orders of magnitude. Measurements by ``skyline calibrate`` replace them."""

    name = "processor"

    def claims(self, device: GpuSpec) -> bool:
        """True where the device is a processor."""
        return device.is_processor

    def basis(self, device: GpuSpec) -> str:
        """Source of the times."""
        return f"stated figures of the {device.full_name} and typical shares of them, none measured"

    def host_cost(self, device: GpuSpec) -> HostCost | None:
        """Typical costs of PyTorch's own Python code and autograd around an operator."""
        return HostCost(launch_us=3.0, synchronous=True, slower=2.0)

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        return [self._one(shape, device) for shape in shapes]

    def _one(self, shape: OperatorShape, device: GpuSpec) -> OperatorTime:
        kind = operator_class(shape.operator)
        if kind is OperatorClass.HOST_COPY:
            # There is no other memory to copy to, so PyTorch returns the tensor itself.
            return OperatorTime(Interval.exact(0.0), True, kind.value)
        calls = max(1, len(shape.inputs)) if kind is OperatorClass.OPTIMIZER else 1
        moved = shape.bytes_moved or sum(
            ELEMENT_BYTES.get(dtype, 4) * prod(size)
            for size, dtype in zip(shape.inputs, shape.dtypes, strict=False)
        )
        # The part of the bytes that fits the cache moves at its speed, so that the time has no step at the
        # cache's size.
        cached = min(moved, device.l2_bytes)
        bytes_per_us = device.bandwidth_gb_s * 1e3
        work_us = (moved - cached + cached / _CACHE_FACTOR) * _TRAFFIC.get(kind, 1.0) / bytes_per_us
        if shape.flops:
            share = _SHARE.get(kind, 0.3)
            if kind is OperatorClass.CONVOLUTION and "AMD" in device.full_name:
                share = _AMD_CONVOLUTIONS
            flop_per_us = device.tflops_fp32 * 1e6 * share
            filled = (
                shape.flops * _vectors_filled(shape, device)
                if kind is OperatorClass.CONVOLUTION
                else shape.flops
            )
            work_us = max(work_us, filled / flop_per_us)
        drawing_us = _drawing_us(shape, device)
        value = calls * _OVERHEAD_US + work_us + drawing_us
        group = _RANDOM if drawing_us else kind.value
        return OperatorTime(Interval(value, value * _SPREAD[0], value * _SPREAD[1]), False, group)


def _drawing_us(shape: OperatorShape, device: GpuSpec) -> float:
    """The time to draw a random number for each element. 0 for operators that draw none."""
    name = shape.operator.lower()
    kind = next((mark for mark in _DRAW_US if mark in name), "")
    if "backward" in name or not kind:
        return 0.0
    drawn = max((prod(size) for size in (*shape.outputs, *shape.inputs)), default=0)
    parallel = "Intel" in device.full_name and kind in _DRAWN_IN_PARALLEL
    return drawn * _DRAW_US[kind] / (device.multiprocessors if parallel else 1)


def _vectors_filled(shape: OperatorShape, device: GpuSpec) -> float:
    """Factor on the arithmetic of a convolution from padding its channels to whole vectors.

    Libraries keep images in blocks of one vector's channels: with vectors of 16 numbers, 24 channels take as
    long as 32. Grouped convolutions have kernels of their own.
    """
    lanes = _lanes(device)
    found = convolved(shape)
    if found is None or is_grouped(shape):
        return 1.0
    filters, channels = found[2][:2]
    filled = _whole(filters, lanes) / filters
    return filled * (_whole(channels, lanes) / channels if channels > _UNPADDED_CHANNELS else 1.0)


def _lanes(device: GpuSpec) -> int:
    """The number of float32 values in a vector of the processor, from its peak: 4, 8 or 16."""
    per_clock = device.tflops_fp32 * 1e6 / max(1, device.multiprocessors * device.clock_mhz)
    lanes = round(per_clock / _FLOP_PER_LANE_AND_CLOCK)
    return next((one for one in (_MOST_LANES, 8, 4) if lanes >= one), 1)


def _whole(size: int, lanes: int) -> int:
    return -(-size // lanes) * lanes
