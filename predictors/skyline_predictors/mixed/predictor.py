"""Operator times in 16 bits and TF32, by layout: formulas of the kernels, with constants fitted on published steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import exp

import msgspec
import numpy as np

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorTime
from skyline.trace.record import OperatorShape
from skyline.whatif.constant import Constant
from skyline_predictors.memory_levels import Floats
from skyline_predictors.mixed.board import board
from skyline_predictors.mixed.call_kind import CONVOLUTIONS, CallKind
from skyline_predictors.mixed.call_reading import as_columns, read_call
from skyline_predictors.mixed.formulas import call_us
from skyline_predictors.mixed.step_width import width_factor
from skyline_predictors.number_format import MEASURED
from skyline_predictors.shape_reading import deciding_format


@cache
def table() -> dict[str, Constant]:
    """All constants by name."""
    text = files("skyline_predictors.mixed").joinpath("constants.json").read_bytes()
    read = msgspec.json.decode(text, type=dict[str, tuple[float, float, float, str]])
    return {name: Constant(*one) for name, one in read.items()}


@cache
def values() -> dict[str, float]:
    """The values of all constants by name."""
    return {name: one.value for name, one in table().items()}


@cache
def spreads() -> dict[str, float]:
    """By kind of call, the standard deviation of the logarithm of the measured over the predicted share of a step."""
    text = files("skyline_predictors.mixed").joinpath("spreads.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, float])


_FIRST_UNITS = (7, 0)
_UNKNOWN_SPREAD = 0.5
"""Standard deviation of the logarithm for a kind without measurements."""


class Mixed:
    """The predictor. ``figures`` replaces the fitted constants while they are being fitted."""

    name = "mixed"

    def __init__(self, figures: Mapping[str, float] | None = None) -> None:
        self._figures = figures

    def basis(self, device: GpuSpec) -> str:
        """Source of the times."""
        unlike = "" if device.vendor == "NVIDIA" else f"; nothing was measured on GPUs of {device.vendor}"
        return (
            f"formulas of the kernels with data-sheet peaks of the {device.name}, their constants fitted on published "
            f"steps of image models in 16 bits on Ampere, Ada and Blackwell boards{unlike}"
        )

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        times, kinds = self.kernels_us(shapes, device)
        spread, wider = spreads(), width_factor(shapes, device)
        found: list[OperatorTime] = []
        for value, kind in zip(times.tolist(), kinds, strict=True):
            deviation = spread.get(kind.value, _UNKNOWN_SPREAD)
            measured = kind.value in spread and device.compute_capability >= _FIRST_UNITS
            factor = exp((1.645 if measured else 2.5) * deviation * wider)
            found.append(OperatorTime(Interval(value, value / factor, value * factor), measured, kind.value))
        return found

    def kernels_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> tuple[Floats, list[CallKind]]:
        """Times in µs, and the kinds whose formulas gave them."""
        constants = self._figures or values()
        read = [read_call(shape) for shape in shapes]
        groups: dict[tuple[CallKind, str], list[int]] = defaultdict(list)
        for place, ((kind, _), shape) in enumerate(zip(read, shapes, strict=True)):
            groups[kind, unit_format(shape, kind, device)].append(place)
        times = np.zeros(len(shapes))
        for (kind, number_format), places in groups.items():
            columns = as_columns(kind, [read[place][1] for place in places])
            times[places] = call_us(kind, columns, board(device, number_format, constants), constants)
        return times, [kind for kind, _ in read]


def unit_format(shape: OperatorShape, kind: CallKind, gpu: GpuSpec) -> str:
    """The format in which a call multiplies. By cuDNN's default, float32 becomes TF32 if the GPU has units for it."""
    number_format = deciding_format(shape)
    if kind in CONVOLUTIONS and number_format == MEASURED and gpu.tflops_tf32 and gpu.vendor == "NVIDIA":
        return "tfloat32"
    return number_format
