"""Operator times carried over from kernels measured on another GPU, wave by wave."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.predict.operator_time import OperatorTime
from skyline.predict.wave_scaling import Rates, carried_factor, share_of_memory
from skyline.trace.shape import OperatorShape
from skyline_predictors.constants import Spread
from skyline_predictors.gpu_generation import generation
from skyline_predictors.hierarchy import LEAST_US, MEASURED_CLASSES, Hierarchy
from skyline_predictors.measured_kernels import Source, sources, wave_spreads
from skyline_predictors.memory_levels import Floats
from skyline_predictors.number_format import MEASURED
from skyline_predictors.operator_class import OperatorClass
from skyline_predictors.operator_key import key_of
from skyline_predictors.shape_reading import deciding_format
from skyline_predictors.work import Work, grouped

_CARRIED_BY_MODEL = (OperatorClass.MATRIX, OperatorClass.CONVOLUTION)
"""What these reach of the traffic model's time is carried over; by waves, peaks and bandwidth alone they come out worse
on the measured GPUs (``benchmarks/calibrate_wave.py``)."""
_A_GENERATION = 0.3
"""A generation more between two GPUs counts as a third more of a peak."""


class Wave:
    """The predictor.

    A kernel's time on a measured GPU is that of the nearest measured kernels, by what they reach of the traffic
    model's time. From there Habitat's wave scaling takes it to the GPU that is asked about; products and
    convolutions keep what they reach of the model's time.

    ``measured`` replaces the shipped kernels, ``source`` names the GPU to start from and ``model`` is the traffic
    model, for calibration itself.
    Number formats and classes that were not measured are left to the traffic model.
    """

    name = "wave"

    def __init__(
        self, measured: dict[str, Source] | None = None, source: str = "", model: Hierarchy | None = None
    ) -> None:
        self._measured = measured
        self._source = source
        self._model = model or Hierarchy()
        self._found: dict[GpuSpec, GpuSpec] = {}

    @property
    def measured(self) -> dict[str, Source]:
        """The measured kernels by GPU, read when they are first needed."""
        return sources() if self._measured is None else self._measured

    def source(self, device: GpuSpec) -> GpuSpec:
        """The measured GPU to start from: the device itself, or the one of the nearest generation."""
        if device not in self._found:
            known = [gpu_named(name) for name in ([self._source] if self._source else self.measured)]
            self._found[device] = min(known, key=lambda one: _distance(one, device))
        return self._found[device]

    def basis(self, device: GpuSpec) -> str:
        """What the times rest on."""
        source = self.source(device)
        if source.name == device.name:
            return f"float32 kernels measured on the {device.name} itself; everything else on a model of its traffic"
        return (
            f"float32 kernels measured on the {source.name}, carried over to the {device.name} by waves, peaks and "
            "bandwidth; everything else on a model of its traffic"
        )

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        keys = [key_of(shape, device) for shape in shapes]
        carried = self.kernels_us(shapes, device, [number_format for _, number_format in keys])
        rest = np.isnan(carried).tolist()
        left = [shape for shape, other in zip(shapes, rest, strict=True) if other]
        modelled = iter(self._model.predict(left, device))
        spreads = {kind: self.spread(kind, device) for kind in MEASURED_CLASSES}
        found: list[OperatorTime] = []
        for (kind, _), time, other in zip(keys, carried.tolist(), rest, strict=True):
            if other:
                found.append(next(modelled))
                continue
            value = max(LEAST_US, time)
            spread = spreads[kind]
            interval = Interval(value, value * spread.low, value * spread.high)
            found.append(OperatorTime(interval, measured=True, group=kind.value))
        return found

    def spread(self, kind: OperatorClass, device: GpuSpec) -> Spread:
        """How far measured times may lie from the predicted one, as factors."""
        spreads = wave_spreads()
        return (spreads.known if self.source(device).name == device.name else spreads.left_out)[kind]

    def beside_us(self, shape: OperatorShape) -> float:
        """What a measurement of one call holds beside the kernel."""
        return self._model.beside_us(shape)

    def measured_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> list[float]:
        """What timing one call by events would give, without TF32: the kernel and what is measured beside it."""
        formats = [deciding_format(shape) for shape in shapes]
        carried = self.kernels_us(shapes, device, formats)
        modelled = self._model.fastest_us(shapes, device)
        times = np.where(np.isnan(carried), modelled, carried).tolist()
        return [time + self.beside_us(shape) for shape, time in zip(shapes, times, strict=True)]

    def kernels_us(self, shapes: Sequence[OperatorShape], device: GpuSpec, formats: Sequence[str]) -> Floats:
        """The times on the GPU, without launch; NaN where no kernel of the class and format was measured."""
        source = self.source(device)
        held = self.measured[source.name]
        times = np.full(len(shapes), np.nan)
        for places, work in grouped(shapes, formats):
            if work.number_format == MEASURED and work.kind in MEASURED_CLASSES and work.kind in held:
                here = self._model.fastest_of(work, source)
                measured = here * np.exp(held[work.kind].near(work.extents))
                times[places] = measured * self._factors(work, source, device, here)
        return times

    def _factors(self, work: Work, source: GpuSpec, device: GpuSpec, here: Floats) -> Floats:
        """By how much longer each takes on the device than on the source, where the model says ``here``."""
        if source.name == device.name:
            return np.ones(len(here))
        if work.kind in _CARRIED_BY_MODEL:
            return self._model.fastest_of(work, device) / here
        origin, destination = (self._rates(work.kind, gpu) for gpu in (source, device))
        intensities = work.flops / np.maximum(1.0, work.moved_bytes)
        shares = np.array([share_of_memory(one, destination.ridge) for one in intensities.tolist()])
        # Memory and arithmetic are mixed as powers, so that the two ends give all that lies between.
        by_memory, by_arithmetic = (carried_factor(origin, destination, one) for one in (1.0, 0.0))
        return by_memory**shares * by_arithmetic ** (1.0 - shares)

    def _rates(self, kind: OperatorClass, gpu: GpuSpec) -> Rates:
        """Of the GPU at float32: the shares of its peaks that its generation reaches are carried through."""
        levels = self._model.levels(kind, MEASURED, gpu)
        return Rates(
            float(levels.memory_bytes_per_us) / 1e3, float(levels.flop_per_us) / 1e6, gpu.multiprocessors
        )


def _distance(known: GpuSpec, device: GpuSpec) -> tuple[bool, bool, float]:
    """Itself first, then its generation, then the one whose peak, bandwidth and age are nearest."""
    apart = abs(log(known.tflops_fp32 / device.tflops_fp32)) + abs(
        log(known.bandwidth_gb_s / device.bandwidth_gb_s)
    )
    older = _A_GENERATION * abs(_age(known) - _age(device))
    return known.name != device.name, generation(known) != generation(device), apart + older


def _age(gpu: GpuSpec) -> float:
    major, minor = gpu.compute_capability
    return major + minor / 10 if gpu.vendor == "NVIDIA" else 8.0
