"""Asks the predictor that knows the number format best: one for plain float32, one for what matrix units multiply."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorPredictor, OperatorTime
from skyline.trace.record import OperatorShape
from skyline_predictors.call_time import shown_us
from skyline_predictors.learned.predictor import LearnedPredictor
from skyline_predictors.mixed.call_kind import CONVOLUTIONS, CallKind
from skyline_predictors.mixed.call_reading import read_call
from skyline_predictors.mixed.channel_blocks import with_channel_blocks
from skyline_predictors.mixed.predictor import Mixed, unit_format
from skyline_predictors.number_format import MEASURED

_FIRST_UNITS = (7, 0)
_OF_FEW_CHANNELS = (CallKind.GROUPED, CallKind.DEPTHWISE)
"""The measured kernels in float32 hold no such convolutions; the formulas do, and scale with the format's peak."""
_MULTIPLYING = CONVOLUTIONS | {CallKind.PRODUCT, CallKind.ATTENTION}


class ByFormat:
    """The predictor. One model predicts all of a step that multiplies in 16 bits, its float32 parts as well."""

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
            one == "tfloat32" or read_call(shape)[0] in _OF_FEW_CHANNELS
            for one, shape in zip(formats, shapes, strict=True)
        ]
        told = {
            True: iter(self._units.predict(_chosen(shapes, on_units, True), device)),
            False: iter(self._plain.predict(_chosen(shapes, on_units, False), device)),
        }
        return [next(told[one]) for one in on_units]

    def measured_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> list[float]:
        """Time of each by itself in µs as measured from outside; float32 without TF32, like the data.

        In 16 bits the host's work around the kernel is that of the same call in float32.
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
    """True if some of these multiply in 16 bits: one model then predicts them all."""
    return has_units(device) and any(
        _multiplied_in(shape, device) not in ("", MEASURED, "tfloat32") for shape in shapes
    )


def has_units(device: GpuSpec) -> bool:
    """True for devices whose matrix units the formulas describe."""
    return device.vendor == "NVIDIA" and device.compute_capability >= _FIRST_UNITS


def _multiplied_in(shape: OperatorShape, device: GpuSpec) -> str:
    """The format of a call that multiplies, empty for others."""
    kind, _ = read_call(shape)
    return unit_format(shape, kind, device) if kind in _MULTIPLYING else ""


def _chosen(shapes: Sequence[OperatorShape], on_units: Sequence[bool], which: bool) -> list[OperatorShape]:
    return [shape for shape, one in zip(shapes, on_units, strict=True) if one is which]
