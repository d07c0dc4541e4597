"""The least time of batch normalization: one block of threads works on each channel.

cuDNN normalizes images in channels-first layout with one block per channel (kernels ``bn_fw_tr_1C11`` and
``bn_bw_1C11``). With fewer channels than multiprocessors the rest of the GPU idles, and one block cannot move data as
fast as its share of the memory would. GPUs with less bandwidth per multiprocessor never reach this limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorTime
from skyline.trace.record import OperatorShape
from skyline_predictors.mixed.call_kind import CallKind, is_backward
from skyline_predictors.mixed.call_reading import read_call
from skyline_predictors.number_format import ELEMENT_BYTES
from skyline_predictors.shape_reading import deciding_format

_HELD_BYTES = 100 << 10
"""A smaller channel stays in its block between the two passes over it, and this limit does not hold."""


@dataclass(frozen=True, slots=True)
class _Rates:
    """Bytes per µs of one block, and of one multiprocessor with several; ``tensors`` are read and written."""

    tensors: int
    block: float
    multiprocessor: float


_FORWARD = _Rates(2, 13.8e3, 15.2e3)
_BACKWARD = _Rates(3, 7.9e3, 14.0e3)
"""Medians of the 53 layers of ResNet-50 at batch size 64 on an NVIDIA H200, float32, channels of more than 100 kB."""


def with_channel_blocks(
    shapes: Sequence[OperatorShape], times: Sequence[OperatorTime], device: GpuSpec
) -> list[OperatorTime]:
    """The times, those of batch normalization no shorter than its blocks take."""
    if device.bandwidth_gb_s * 1e3 <= _FORWARD.multiprocessor * device.multiprocessors:
        return list(times)
    return [_at_least(time, least_us(shape, device)) for shape, time in zip(shapes, times, strict=True)]


def least_us(shape: OperatorShape, device: GpuSpec) -> float:
    """Least time of the call in µs; 0 for other calls, for channels last and for small channels."""
    if read_call(shape)[0] is not CallKind.BATCH_NORM or shape.layout:
        return 0.0
    images = max((size for size in shape.inputs if len(size) > 2), key=prod, default=())
    if not images or not images[1]:
        return 0.0
    channels = images[1]
    moved = float(prod(images) * ELEMENT_BYTES.get(deciding_format(shape), 4))
    if moved / channels <= _HELD_BYTES:
        return 0.0
    rates = _BACKWARD if is_backward(shape) else _FORWARD
    return rates.tensors * moved / min(rates.block * channels, rates.multiprocessor * device.multiprocessors)


def _at_least(time: OperatorTime, least_us: float) -> OperatorTime:
    us = time.time_us
    if us.value >= least_us:
        return time
    longer = least_us / us.value if us.value > 0 else 1.0
    return replace(time, time_us=Interval(least_us, us.low * longer, us.high * longer))
