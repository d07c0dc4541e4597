"""The predictor for devices with measurements by ``skyline calibrate``, made here or imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyline.calibrate.designs import DEVICE_CALLS, HOST, TRAINING
from skyline.calibrate.machine import CalibratedDevice
from skyline.calibrate.store import CaseTime, stamps, stored
from skyline.interval import Interval, median
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import is_called
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import CalibrationGain, OperatorPredictor, OperatorTime
from skyline.trace.record import OperatorShape
from skyline_predictors.calibrated.family import family_of, features
from skyline_predictors.calibrated.measured_shape import shape_of
from skyline_predictors.kernel_row import FLOAT
from skyline_predictors.mixed.by_format import ByFormat, has_units, is_narrow
from skyline_predictors.mixed.call_reading import read_call
from skyline_predictors.mixed.predictor import unit_format
from skyline_predictors.processor import Processor

_Files = tuple[tuple[CalibratedDevice, tuple[CaseTime, ...]], ...]
_Key = tuple[str, str]
_Row = tuple[tuple[float, ...], float, float]
_MEASURED_SLOWER = 2.0
"""Factor by which a script's host time may exceed the measured calls on the same host."""
_WIDE_DTYPES = ("fp32", "tf32")
_LONGEST_START_US = 10.0
"""Kernels below this time are mostly start: without work they take 2 µs on an H200, and 5 µs in the predictions."""
_LEAST_BY_ITSELF = 8
"""Number of measured operators of one name from which on they predict that operator alone. With fewer, their
whole family does."""


class Calibrated:
    """The predictor. ``files`` replaces the stored measurements, for tests and scoring."""

    name = "calibrated"

    def __init__(self, files: _Files | None = None) -> None:
        self._given = files
        self._known: dict[str, _OneDevice | None] = {}
        self._stamp: tuple[object, ...] = ()

    def claims(self, device: GpuSpec) -> bool:
        """True where there are measurements of this device."""
        return self._of(device) is not None

    def basis(self, device: GpuSpec) -> str:
        """Source of the times."""
        own = self._of(device)
        base = _base(device)
        if own is None:
            return base.basis(device)
        return f"{own.count} operators calibrated on {own.machine.name}, otherwise {base.basis(device)}"

    def host_cost(self, device: GpuSpec) -> HostCost | None:
        """Measured host time of an operator; None where it was not measured."""
        own = self._of(device)
        return None if own is None else own.host_cost

    def gain(self, device: GpuSpec) -> CalibrationGain | None:
        """Cross-validation of the measurements: each operator is predicted from all others."""
        own = self._of(device)
        return None if own is None else own.gain()

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        answers = list(_base(device).predict(shapes, device))
        own = self._of(device)
        return answers if own is None else own.corrected(shapes, answers)

    def _of(self, device: GpuSpec) -> _OneDevice | None:
        if self._given is None and (stamp := stamps()) != self._stamp:
            # Another process may have measured the device again.
            self._known.clear()
            self._stamp = stamp
        if device.name not in self._known:
            files = self._given if self._given is not None else stored()
            found = next(
                ((machine, rows) for machine, rows in files if is_called(device, machine.slug, machine.name)),
                None,
            )
            usable = found is not None and any(one.time_us is not None for one in found[1])
            self._known[device.name] = _OneDevice(*found, device) if found is not None and usable else None
        return self._known[device.name]


class _OneDevice:
    """The measurements of one device, compared with the predictions made without them."""

    def __init__(self, machine: CalibratedDevice, rows: Sequence[CaseTime], device: GpuSpec) -> None:
        self.machine = machine
        self._device = device
        self._rows = [one for one in rows if one.time_us is not None and one.case.threads == 0]
        self.count = len(self._rows)

    @cached_property
    def host_cost(self) -> HostCost | None:
        """Host time per operator, from the measured operators that have no work to do."""
        times = {
            op: [one.time_us for one in self._rows if one.case.op == op and one.time_us is not None]
            for op in (*HOST, *TRAINING, *DEVICE_CALLS)
        }
        if not all(times[op] for op in HOST):
            return None
        view, call, module = (median(times[op]) for op in HOST)
        typical = HostCost()
        if all(times[op] for op in TRAINING):
            forward, backward, optimizer = (median(times[op]) for op in TRAINING)
        else:
            # The time of an operator includes its call. The rest is the overhead of the module and of
            # autograd.
            forward = backward = optimizer = max(0.5, module - call)
        if self.machine.device != "cpu":
            launch = median(times["launch_call"]) if times["launch_call"] else None
            return replace(
                typical,
                slower=_MEASURED_SLOWER,
                operator_us=view,
                launch_us=typical.launch_us if launch is None else launch + forward,
                backward_us=None if launch is None else launch + backward,
                optimizer_us=None if launch is None else launch + optimizer,
                wait_us=median(times["stream_sync"]) if times["stream_sync"] else typical.wait_us,
            )
        return replace(
            typical,
            slower=_MEASURED_SLOWER,
            operator_us=view,
            launch_us=forward,
            backward_us=backward,
            optimizer_us=optimizer,
            synchronous=True,
        )

    @cached_property
    def _wide(self) -> _Corrections:
        """Corrections for steps that multiply in float32 or TF32."""
        return self._corrections([one for one in self._rows if one.case.dtype in _WIDE_DTYPES])

    @cached_property
    def _of_all(self) -> _Corrections:
        """Corrections for steps that multiply in 16 bits, where another model also predicts float32 operators."""
        return self._corrections(self._rows)

    def _corrections(self, measured: Sequence[CaseTime]) -> _Corrections:
        """Corrections by operator and by family. The family serves operators with too few measurements."""
        # Scripts run these convolutions in TF32, so measurements without TF32 do not apply to them.
        pairs = [
            (one, shape)
            for one in measured
            if (shape := shape_of(one.case)) and (one.case.dtype != "fp32" or self._format(shape) == FLOAT)
        ]
        predicted = _base(self._device).predict([shape for _, shape in pairs], self._device)
        rows: dict[_Key, list[_Row]] = {}
        for (one, shape), answer in zip(pairs, predicted, strict=True):
            family = family_of(shape)
            if family is None or one.time_us is None or self._only_starts(one.time_us, answer.time_us.value):
                continue
            row = (features(family, shape), log(one.time_us / answer.time_us.value), one.spread)
            for name in (_own(shape, family), family):
                rows.setdefault((name, self._format(shape)), []).append(row)
        return {
            key: GaussianCorrection.of(*(np.array(column) for column in zip(*own, strict=True)))
            for key, own in rows.items()
            if "::" not in key[0] or len(own) >= _LEAST_BY_ITSELF
        }

    def _key(self, shape: OperatorShape, known: _Corrections) -> tuple[_Key, str] | None:
        family = family_of(shape)
        # Only images in the default memory layout were measured.
        if family is None or shape.layout:
            return None
        for name in (_own(shape, family), family):
            if (key := (name, self._format(shape))) in known:
                return key, family
        return None

    def _format(self, shape: OperatorShape) -> str:
        return unit_format(shape, read_call(shape)[0], self._device)

    def _only_starts(self, *times_us: float) -> bool:
        """True for a kernel that takes hardly longer than its start. Such a kernel does not predict larger ones."""
        return not self._device.is_processor and min(times_us) < _LONGEST_START_US

    def gain(self) -> CalibrationGain | None:
        """Median errors before and after the correction. Each operator is predicted from the others of its name."""
        known = [one for (name, _), one in self._of_all.items() if "::" in name and len(one.left_out) > 1]
        if not known:
            return None
        # The ratios are measured / predicted, the error is predicted / measured - 1.
        before = [abs(exp(-ratio) - 1) for one in known for ratio in one.ratios.tolist()]
        after = [abs(exp(-rest) - 1) for one in known for rest in one.left_out.tolist()]
        return CalibrationGain(median(before), median(after), len(before))

    def corrected(self, shapes: Sequence[OperatorShape], answers: list[OperatorTime]) -> list[OperatorTime]:
        """The answers, corrected by the errors that were measured on similar operators in the same format."""
        by_format = has_units(self._device) and not is_narrow(shapes, self._device)
        known = self._wide if by_format else self._of_all
        places: dict[tuple[_Key, str], list[int]] = {}
        for place, shape in enumerate(shapes):
            if (found := self._key(shape, known)) is not None:
                places.setdefault(found, []).append(place)
        for (key, family), own in places.items():
            asked = np.array([features(family, shapes[place]) for place in own])
            ratios, halves = known[key].read(asked)
            for place, ratio, half in zip(own, ratios.tolist(), halves.tolist(), strict=True):
                if self._only_starts(answers[place].time_us.value):
                    continue
                value = answers[place].time_us.value * exp(ratio)
                answers[place] = OperatorTime(
                    Interval(value, value * exp(-half), value * exp(half)), True, family
                )
        return answers


def _own(shape: OperatorShape, family: str) -> str:
    """Key of the operator within its family: a grouped convolution is corrected apart from an ungrouped one."""
    return f"{shape.operator} {family}"


def _base(device: GpuSpec) -> OperatorPredictor:
    return Processor() if device.is_processor else ByFormat()


Array = NDArray[np.floating[Any]]

_LENGTHS = (1.5, 3.0, 6.0)
"""Candidate length scales of the process, in powers of two of a size."""
_HEIGHTS = (0.3, 0.8)
_NOISES = (0.05, 0.15, 0.3)
_SLOPE = 0.05
_LEVEL = 0.3
_UNSTEADY = 0.5
"""Share of the spread between a measurement's blocks that counts as its noise."""
_FEW = 8
_FEW_SPREAD = 0.7
"""Least half width of the interval with fewer than ``_FEW`` measurements: the ratio may be off by a factor of two."""
_AS_PREDICTED = 1.0
"""Weight of the prediction if there are few measurements, as a number of operators that took as long as predicted."""
_NINE_IN_TEN = 1.645
_BEYOND = 0.5
"""Largest distance between a predicted logarithm of the ratio and the range of the measured ones."""


@dataclass(frozen=True, slots=True)
class GaussianCorrection:
    """A Gaussian process over the logarithm of measured over predicted time (Rasmussen and Williams, 2006, chapter 2).

    ``sizes`` has a row for each measured operator, in powers of two. ``ratios`` are the logarithms of their
    ratios. ``weights`` and ``inverse`` belong to the process. ``left_out`` is the error of each logarithm
    when it is predicted from all others (section 5.4.2). ``widened`` is the factor by which the intervals of
    the process have to grow so that nine in ten of these errors lie inside.
    """

    sizes: Array
    ratios: Array
    middle: float
    weights: Array
    inverse: Array
    length: float
    height: float
    noise: float
    bounds: tuple[float, float]
    left_out: Array
    widened: float

    @classmethod
    def of(cls, sizes: Array, ratios: Array, spreads: Array) -> GaussianCorrection:
        """The process for at least one operator, with the smoothness that best predicts each from the others."""
        believed = len(ratios) / (len(ratios) + _AS_PREDICTED) if len(ratios) < _FEW else 1.0
        middle = believed * float(np.median(ratios))
        rest = ratios - middle
        unsteady = (_UNSTEADY * np.minimum(spreads, 1.0)) ** 2
        best: tuple[float, Array, Array, Array, tuple[float, float, float]] | None = None
        for length, height, noise in product(_LENGTHS, _HEIGHTS, _NOISES):
            covariance = _covariance(sizes, sizes, sizes.mean(axis=0), length, height)
            inverse = np.linalg.inv(covariance + np.diag(noise**2 + unsteady))
            diagonal = np.diag(inverse)
            left_out = (inverse @ rest) / diagonal
            likelihood = float(np.log(diagonal).sum() - (left_out**2 * diagonal).sum())
            if best is None or likelihood > best[0]:
                best = (likelihood, inverse, left_out, diagonal, (length, height, noise))
        assert best is not None
        _, inverse, left_out, diagonal, (length, height, noise) = best
        widened = 1.0
        if len(ratios) >= _FEW:
            widened = float(np.quantile(np.abs(left_out) * np.sqrt(diagonal), 0.9)) / _NINE_IN_TEN
        bounds = (float(ratios.min()) - _BEYOND, float(ratios.max()) + _BEYOND)
        return cls(
            sizes,
            ratios,
            middle,
            inverse @ rest,
            inverse,
            length,
            height,
            noise,
            bounds,
            left_out,
            max(0.5, widened),
        )

    def read(self, sizes: Array) -> tuple[Array, Array]:
        """The logarithm of the ratio at each of ``sizes``, and half the width of its 90 % interval."""
        centre = self.sizes.mean(axis=0)
        across = _covariance(sizes, self.sizes, centre, self.length, self.height)
        values = np.clip(self.middle + across @ self.weights, *self.bounds)
        own = self.height**2 + _SLOPE**2 * ((sizes - centre) ** 2).sum(axis=1) + _LEVEL**2
        variance = (
            np.maximum(0.0, own - np.einsum("ij,jk,ik->i", across, self.inverse, across)) + self.noise**2
        )
        half = _NINE_IN_TEN * self.widened * np.sqrt(variance)
        return values, np.maximum(half, _FEW_SPREAD) if len(self.sizes) < _FEW else half


def _covariance(left: Array, right: Array, centre: Array, length: float, height: float) -> Array:
    """Covariance of the ratios: similar sizes vary together, and all sizes share a level and a slope."""
    squares = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    slopes = _SLOPE**2 * (left - centre) @ (right - centre).T
    return height**2 * np.exp(-squares / (2 * length**2)) + slopes + _LEVEL**2


_Corrections = dict[_Key, GaussianCorrection]
