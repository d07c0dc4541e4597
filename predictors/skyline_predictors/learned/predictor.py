"""The predictor trained on measured kernels. The analytical model predicts operators that nobody measured."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorPredictor, OperatorTime
from skyline.trace.record import OperatorShape
from skyline_predictors.call_time import shown_us
from skyline_predictors.kernel_row import FLOAT
from skyline_predictors.learned import family as families
from skyline_predictors.learned import lookup
from skyline_predictors.learned.family import Family
from skyline_predictors.learned.model import LONGER_US, Model, shipped
from skyline_predictors.roofline import Roofline

_LEAST_US = 2.0
"""No kernel is faster than this, however little it does."""
_TF32_SINCE = (8, 0)


class LearnedPredictor:
    """The predictor. ``model`` replaces the shipped one for tests and training; ``otherwise`` predicts the rest."""

    name = "learned"

    def __init__(self, model: Model | None = None, otherwise: OperatorPredictor | None = None) -> None:
        self._given = model
        self._otherwise = otherwise or Roofline()

    @property
    def _model(self) -> Model:
        # Loaded on first use, so that the name of the predictor costs no time.
        return self._given or shipped()

    def basis(self, device: GpuSpec) -> str:
        """Source of the times."""
        known = sorted(self._model.learned.trained.rows)
        machine = self._model.machine(Family.PRODUCT, device)
        own = ""
        if not self._model.is_known(Family.ELEMENTWISE, machine):
            own = f"the {device.name}'s generation unmeasured; "
        elif not self._model.is_known(Family.PRODUCT, machine):
            own = f"products on the {device.name} by physics, its measured clock being that of a hot board; "
        return (
            f"data-sheet figures of the {device.name} and float32 kernels measured on {', '.join(known)} "
            f"({own}16-bit and 8-bit formats, TF32 and fused attention unmeasured: an analytical model)"
        )

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape as PyTorch runs it by default: float32 convolutions use TF32 if the GPU has it."""
        tf32 = device.tflops_tf32 is not None and device.compute_capability >= _TF32_SINCE
        return self._answers(shapes, device, plain_convolutions=not tf32 or device.vendor != "NVIDIA")

    def measured_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> list[float]:
        """Time of each operator alone in µs as timed from outside, without TF32, like the data."""
        answers = self._answers(shapes, device, plain_convolutions=True)
        kernels = np.array([answer.time_us.value for answer in answers])
        found: list[float] = shown_us(kernels, self.shortest_us(shapes, device)).tolist()
        return found

    def shortest_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> NDArray[np.float64]:
        """Shortest time of each operator in µs as timed from outside, in any format: mostly work of the host."""
        machine = self._model.machine(Family.PRODUCT, device)
        return np.array([self._model.shortest_us(shape.operator, machine) for shape in shapes])

    def _answers(
        self, shapes: Sequence[OperatorShape], gpu: GpuSpec, *, plain_convolutions: bool
    ) -> list[OperatorTime]:
        places: dict[Family | None, list[int]] = {}
        for place, shape in enumerate(shapes):
            family = families.family_of(shape) if _in_float32(shape) else None
            if family is Family.CONVOLUTION and not plain_convolutions:
                family = None
            places.setdefault(family, []).append(place)
        answers: list[OperatorTime | None] = [None] * len(shapes)
        for family, own in places.items():
            asked = [shapes[place] for place in own]
            told = self._unlearned(asked, gpu) if family is None else self._learned(family, asked, gpu)
            for place, answer in zip(own, told, strict=True):
                answers[place] = answer
        return [answer for answer in answers if answer is not None]

    def _unlearned(self, shapes: Sequence[OperatorShape], gpu: GpuSpec) -> list[OperatorTime]:
        """Times of operators without measurements. Lookups by element take at least their instructions' time."""
        machine = self._model.machine(Family.ELEMENTWISE, gpu)
        found: list[OperatorTime] = []
        for shape, time in zip(shapes, self._otherwise.predict(shapes, gpu), strict=True):
            least, us = lookup.least_us(shape, machine), time.time_us
            found.append(replace(time, time_us=us.scaled(least / us.value)) if least > us.value else time)
        return found

    def _learned(self, family: Family, shapes: Sequence[OperatorShape], gpu: GpuSpec) -> list[OperatorTime]:
        model = self._model
        machine = model.machine(family, gpu)
        sizes = families.read(family, shapes)
        kernels, wider = model.kernel_us(family, sizes, machine)
        columns = np.maximum(_LEAST_US, kernels), wider, model.within_reach(family, sizes)
        found: list[OperatorTime] = []
        for value, factor, within in zip(*(column.tolist() for column in columns), strict=True):
            spread = model.spread(family, machine, bisect_left(LONGER_US, value), within)
            told = Interval(value, value * spread.low / factor, value * spread.high * factor)
            found.append(OperatorTime(told, True, family.value))
        return found


def _in_float32(shape: OperatorShape) -> bool:
    for name in (*shape.dtypes, *shape.output_dtypes):
        if "float" in name or "complex" in name:
            return name == FLOAT
    return True
