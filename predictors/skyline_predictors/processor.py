"""Operator times on a processor from shapes alone: arithmetic and traffic at typical shares of what it can do."""

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
"""Dispatch of one operator and, where several threads work, their start and end."""
_SHARE = {
    OperatorClass.MATRIX: 0.6,
    OperatorClass.CONVOLUTION: 0.4,
    OperatorClass.ATTENTION: 0.3,
    OperatorClass.RECURRENT: 0.3,
}
_AMD_CONVOLUTIONS = 0.8
"""Convolutions on AMD's processors, whose clock is far above the nominal one: 1.25 was seen with AVX-512
(``sweep_curves``); others were not measured."""
_CACHE_FACTOR = 3.0
"""Speed of the shared cache over that of memory."""
_TRAFFIC = {OperatorClass.SOFTMAX: 2.0, OperatorClass.NORMALIZATION: 1.5}
_SPREAD = (0.4, 2.5)
_RANDOM = "random numbers"
"""The group of operators that draw them."""
_FLOP_PER_LANE_AND_CLOCK = 4
"""The peak counts two units that multiply and add, for each number in a vector."""
_MOST_LANES = 16
_DRAW_US = {
    "dropout": 4.5e-3,
    "bernoulli": 4.5e-3,
    "::rand": 2e-3,
    "::uniform_": 2e-3,
    "::normal_": 2.5e-3,
    "::exponential_": 15e-3,
}
"""A random number of PyTorch's generator, by one thread: measured on an AMD EPYC with AVX-512, PyTorch 2.13."""
_DRAWN_IN_PARALLEL = ("dropout", "bernoulli")
"""On Intel's processors PyTorch has its threads draw these with MKL; that was not measured."""
_UNPADDED_CHANNELS = 3
"""Channels of a coloured image: oneDNN has kernels for first layers that read their input as it is."""


class Processor:
    """The predictor. Its shares are orders of magnitude; ``skyline calibrate`` puts measurements in their place."""

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
            # There is no other memory to copy to: PyTorch returns the tensor as it is.
            return OperatorTime(Interval.exact(0.0), True, kind.value)
        calls = max(1, len(shape.inputs)) if kind is OperatorClass.OPTIMIZER else 1
        moved = shape.bytes_moved or sum(
            ELEMENT_BYTES.get(dtype, 4) * prod(size)
            for size, dtype in zip(shape.inputs, shape.dtypes, strict=False)
        )
        # As much as fits the cache comes from there, so that the time has no step where an operand outgrows it.
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
    """The time to draw a random number for each element; 0 for operators that draw none."""
    name = shape.operator.lower()
    kind = next((mark for mark in _DRAW_US if mark in name), "")
    if "backward" in name or not kind:
        return 0.0
    drawn = max((prod(size) for size in (*shape.outputs, *shape.inputs)), default=0)
    parallel = "Intel" in device.full_name and kind in _DRAWN_IN_PARALLEL
    return drawn * _DRAW_US[kind] / (device.multiprocessors if parallel else 1)


def _vectors_filled(shape: OperatorShape, device: GpuSpec) -> float:
    """The arithmetic of a convolution with its channels in whole vectors, over its own.

    Libraries keep images in blocks of as many channels as a vector holds numbers: 24 channels take as long as 32 where
    a vector holds 16. Groups have kernels of their own.
    """
    lanes = _lanes(device)
    found = convolved(shape)
    if found is None or is_grouped(shape):
        return 1.0
    filters, channels = found[2][:2]
    filled = _whole(filters, lanes) / filters
    return filled * (_whole(channels, lanes) / channels if channels > _UNPADDED_CHANNELS else 1.0)


def _lanes(device: GpuSpec) -> int:
    """The numbers in float32 that a vector of the processor holds, by its peak: 4, 8 or 16."""
    per_clock = device.tflops_fp32 * 1e6 / max(1, device.multiprocessors * device.clock_mhz)
    lanes = round(per_clock / _FLOP_PER_LANE_AND_CLOCK)
    return next((one for one in (_MOST_LANES, 8, 4) if lanes >= one), 1)


def _whole(size: int, lanes: int) -> int:
    return -(-size // lanes) * lanes
