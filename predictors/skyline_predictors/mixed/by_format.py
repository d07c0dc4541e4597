"""Selects the predictor by number format: one for plain float32, one for the formats of matrix units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorPredictor, OperatorTime
from skyline.trace.record import OperatorShape
from skyline_predictors.call_time import shown_us
from skyline_predictors.learned.predictor import LearnedPredictor
from skyline_predictors.mixed.call_kind import CONVOLUTIONS, CallKind, is_backward
from skyline_predictors.mixed.call_reading import read_call
from skyline_predictors.mixed.predictor import Mixed, unit_format
from skyline_predictors.number_format import ELEMENT_BYTES, MEASURED
from skyline_predictors.shape_reading import deciding_format

_FIRST_UNITS = (7, 0)
_OF_FEW_CHANNELS = (CallKind.GROUPED, CallKind.DEPTHWISE)
"""Their formulas scale with the peak of the format, so they hold for float32 too."""
_MULTIPLYING = CONVOLUTIONS | {CallKind.PRODUCT, CallKind.ATTENTION}


class ByFormat:
    """The predictor. In a step that multiplies in 16 bits, one model predicts all operators, including float32 ones."""

    name = "mixed"

    def __init__(
        self, units: OperatorPredictor | None = None, plain: OperatorPredictor | None = None
    ) -> None:
        self._units = units or Mixed()
        self._plain = plain or LearnedPredictor()

    def basis(self, device: GpuSpec) -> str:
        """Source of the times."""
        if not has_units(device):
            return self._plain.basis(device)
        return f"in 16 bits and TF32 {self._units.basis(device)}; in float32 {self._plain.basis(device)}"

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        if not has_units(device):
            return self._plain.predict(shapes, device)
        return with_channel_blocks(shapes, self._by_format(shapes, device), device)

    def _by_format(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        if is_narrow(shapes, device):
            return self._units.predict(shapes, device)
        formats = [_multiplied_in(shape, device) for shape in shapes]
        on_units = [
            one == "tfloat32" or _is_unmeasured(shape) for one, shape in zip(formats, shapes, strict=True)
        ]
        told = {
            True: iter(self._units.predict(_chosen(shapes, on_units, True), device)),
            False: iter(self._plain.predict(_chosen(shapes, on_units, False), device)),
        }
        return [next(told[one]) for one in on_units]

    def measured_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> list[float]:
        """Time of each operator alone in µs as timed from outside; float32 without TF32, like the data.

        In 16 bits, the host's work around the kernel is assumed to be the same as in float32.
        """
        measured = getattr(self._plain, "measured_us", None)
        if measured is not None and not is_narrow(shapes, device):
            return list(measured(shapes, device))
        kernels = np.array([one.time_us.value for one in self._units.predict(shapes, device)])
        shortest = getattr(self._plain, "shortest_us", None)
        shown = kernels if shortest is None else shown_us(kernels, shortest(shapes, device))
        found: list[float] = shown.tolist()
        return found


def is_narrow(shapes: Sequence[OperatorShape], device: GpuSpec) -> bool:
    """True if some of these multiply in 16 bits. One model then predicts all of them."""
    return has_units(device) and any(
        _multiplied_in(shape, device) not in ("", MEASURED, "tfloat32") for shape in shapes
    )


def has_units(device: GpuSpec) -> bool:
    """True for devices with matrix units that the formulas describe."""
    return device.vendor == "NVIDIA" and device.compute_capability >= _FIRST_UNITS


def _multiplied_in(shape: OperatorShape, device: GpuSpec) -> str:
    """The format in which a call multiplies. Empty for calls that do not multiply."""
    kind, _ = read_call(shape)
    return unit_format(shape, kind, device) if kind in _MULTIPLYING else ""


def _is_unmeasured(shape: OperatorShape) -> bool:
    """True for calls that the formulas cover and the measured float32 kernels do not contain."""
    kind, _ = read_call(shape)
    return kind in _OF_FEW_CHANNELS or (kind is CallKind.BATCH_NORM and shape.layout == "channels last")


def _chosen(shapes: Sequence[OperatorShape], on_units: Sequence[bool], which: bool) -> list[OperatorShape]:
    return [shape for shape, one in zip(shapes, on_units, strict=True) if one is which]


_HELD_BYTES = 100 << 10
"""The limit does not apply to smaller channels, which stay in their block between the two passes."""


@dataclass(frozen=True, slots=True)
class _Rates:
    """Bytes per µs of one block, and of one multiprocessor with several. ``tensors`` is the number read and written."""

    tensors: int
    block: float
    multiprocessor: float


_FORWARD = _Rates(2, 13.8e3, 15.2e3)
_BACKWARD = _Rates(3, 7.9e3, 14.0e3)
"""Medians of the 53 layers of ResNet-50 at batch size 64 on an NVIDIA H200, float32, channels of more than 100 kB."""


def with_channel_blocks(
    shapes: Sequence[OperatorShape], times: Sequence[OperatorTime], device: GpuSpec
) -> list[OperatorTime]:
    """The times, with a lower bound for batch normalization that has one block per channel.

    cuDNN normalizes images in channels-first layout with one block per channel (kernels ``bn_fw_tr_1C11`` and
    ``bn_bw_1C11``). If there are fewer channels than multiprocessors, the rest of the GPU idles, and one
    block cannot move data at its share of the memory's rate. GPUs with less bandwidth per multiprocessor
    never reach this limit.
    """
    if device.bandwidth_gb_s * 1e3 <= _FORWARD.multiprocessor * device.multiprocessors:
        return list(times)
    return [_at_least(time, least_us(shape, device)) for shape, time in zip(shapes, times, strict=True)]


def least_us(shape: OperatorShape, device: GpuSpec) -> float:
    """Least time of the call in µs. 0 for other calls, for channels last and for small channels."""
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
