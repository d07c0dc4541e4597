"""Operator times from shapes alone: what every level of a GPU's memory has to deliver for them, tile by tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, hypot, log

import numpy as np

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorTime
from skyline.trace.shape import OperatorShape
from skyline_predictors.attended import attention_us
from skyline_predictors.constants import Spread
from skyline_predictors.convolved import Convolutions, convolution_us
from skyline_predictors.gpu_generation import generation
from skyline_predictors.hierarchy_constants import HierarchyConstants, hierarchy_constants
from skyline_predictors.memory_levels import Floats, Levels
from skyline_predictors.number_format import MEASURED
from skyline_predictors.operator_class import OperatorClass, operator_class
from skyline_predictors.operator_key import key_of
from skyline_predictors.shape_reading import deciding_format, weight_gradients
from skyline_predictors.streamed import SHORT_ROW, by_row_us, streamed_us
from skyline_predictors.sustained import reached_tflops, sustained_tflops
from skyline_predictors.tiled_product import Products, product_us
from skyline_predictors.work import ReducedRows, Work, grouped

LEAST_US = 2.0
"""No kernel is done sooner than this, however little it does."""
_BUS_GB_S = 12.0
"""Copies between host and GPU over PCI Express, pinned memory; pageable memory reaches half of it."""
_L2_WIDER = {"8.0": 1.85, "9.0": 3.0, "10.0": 3.0}
"""By how much more a multiprocessor draws from the second-level cache than one of a V100, which has 2048 bytes per
clock for 80 of them: an A100 has 5120 for 108 and an H100 as many for 132, where neighbouring blocks also share what
one of them draws (NVIDIA's white papers on the two architectures)."""
_RECURRENT_STEP_US = 10.0
"""One step of a recurrent layer has to wait for the one before, however little it computes."""
MEASURED_CLASSES = frozenset(
    {
        OperatorClass.MATRIX,
        OperatorClass.CONVOLUTION,
        OperatorClass.ELEMENTWISE,
        OperatorClass.SOFTMAX,
        OperatorClass.NORMALIZATION,
    }
)
_COMPUTING = frozenset(
    {OperatorClass.MATRIX, OperatorClass.CONVOLUTION, OperatorClass.ATTENTION, OperatorClass.RECURRENT}
)
_TILED = frozenset({OperatorClass.MATRIX, OperatorClass.CONVOLUTION})
_BY_ROW = frozenset({OperatorClass.SOFTMAX, OperatorClass.NORMALIZATION})
_UNMEASURED = Spread(0.5, 2.0)
"""Of a class or number format without any measurement: a factor of two, independent of the measured spread."""
_UNMEASURED_TRAFFIC = Spread(0.7, 1.5)
"""The same for work that only moves bytes: its speed depends little on what the bytes mean."""


class Hierarchy:
    """The predictor. ``figures`` replaces the calibrated constants, for calibration itself."""

    name = "hierarchy"

    def __init__(self, figures: HierarchyConstants | None = None) -> None:
        self._figures = figures

    @property
    def figures(self) -> HierarchyConstants:
        """The constants, read when they are first needed."""
        if self._figures is None:
            self._figures = hierarchy_constants()
        return self._figures

    def basis(self, device: GpuSpec) -> str:
        """What the times rest on."""
        own = "" if self._known(device) else f"the {device.name}'s own generation unmeasured; "
        return (
            f"a model of the traffic through the caches and the memory of the {device.name}, calibrated on float32 "
            f"kernels of P4, P100, V100, T4 and A100 ({own}16-bit and 8-bit formats, TF32 and fused attention "
            "unmeasured)"
        )

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        keys = [key_of(shape, device) for shape in shapes]
        times = self.kernels_us(shapes, device, [number_format for _, number_format in keys])
        found: list[OperatorTime] = []
        for (kind, number_format), time in zip(keys, times.tolist(), strict=True):
            value = max(LEAST_US, time)
            measured = kind in MEASURED_CLASSES and number_format == MEASURED
            spread = self.spread(kind, device, measured=measured)
            interval = Interval(value, value * spread.low, value * spread.high)
            found.append(OperatorTime(interval, measured, kind.value))
        return found

    def measured_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> list[float]:
        """What timing one call by events would give, without TF32: the kernel and what is measured beside it."""
        times = self.fastest_us(shapes, device)
        return [time + self.beside_us(shape) for shape, time in zip(shapes, times.tolist(), strict=True)]

    def fastest_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Floats:
        """The kernels by themselves, the fastest of some calls: short ones are over before the power limit tells."""
        times = np.zeros(len(shapes))
        for places, work in grouped(shapes, [deciding_format(shape) for shape in shapes]):
            times[places] = self.fastest_of(work, device)
        return times

    def fastest_of(self, work: Work, device: GpuSpec) -> Floats:
        """The same of operators that were read before."""
        sustained = self.levels(work.kind, work.number_format, device)
        if work.kind not in _COMPUTING:
            return self._work_us(work, sustained)
        reached = self.levels(work.kind, work.number_format, device, lasting=False)
        if work.kind in _TILED:
            # The two differ in arithmetic alone: traffic is worked out once.
            rates = np.stack([sustained.flop_per_us, reached.flop_per_us])[:, None]
            lasting, at_first = self._work_us(work, replace(sustained, flop_per_us=rates))
        else:
            lasting, at_first = self._work_us(work, sustained), self._work_us(work, reached)
        settled = lasting / (lasting + self.figures.power.settles_us)
        return at_first + (lasting - at_first) * settled

    def beside_us(self, shape: OperatorShape) -> float:
        """What a measurement of one call holds beside the kernel."""
        return self.figures.beside_us.get(operator_class(shape.operator), 10.0)

    def kernels_us(
        self, shapes: Sequence[OperatorShape], gpu: GpuSpec, formats: Sequence[str], *, lasting: bool = True
    ) -> Floats:
        """The times on the GPU in these number formats, without launch and without the least time of a kernel.

        ``lasting`` work meets the limit of the board's power.
        """
        times = np.zeros(len(shapes))
        for places, work in grouped(shapes, formats):
            levels = self.levels(work.kind, work.number_format, gpu, lasting=lasting)
            times[places] = self._work_us(work, levels)
        return times

    def _work_us(self, work: Work, levels: Levels) -> Floats:
        """``levels`` with several rates of arithmetic give as many rows of times, for products and convolutions."""
        if work.kind is OperatorClass.HOST_COPY:
            return work.moved_bytes / (_BUS_GB_S * 1e3)
        arithmetic = work.flops / levels.flop_per_us
        if work.kind is OperatorClass.RECURRENT:
            steps = [shape.inputs[0][0] if shape.inputs and shape.inputs[0] else 1 for shape in work.shapes]
            return np.maximum(np.array(steps) * _RECURRENT_STEP_US, arithmetic)
        if work.kind in _BY_ROW:
            return np.maximum(self._by_row_us(work, levels), arithmetic)
        counted = work.flops > 0
        if work.kind in _COMPUTING and counted.all():
            return self._computed_us(work, levels)
        cache, overlap = self.figures.cache, self.figures.stream_overlap
        traffic = np.maximum(streamed_us(work.moved_bytes, levels, cache, overlap), arithmetic)
        if work.kind in _COMPUTING and counted.any():
            return np.where(counted, self._computed_us(work, levels), traffic)
        return traffic

    def _computed_us(self, work: Work, levels: Levels) -> Floats:
        figures = self.figures
        if isinstance(work.sizes, Products):
            return product_us(work.sizes, levels, figures.matrix, figures.cache)
        if isinstance(work.sizes, Convolutions):
            return self._convolutions_us(work, work.sizes, levels)
        return attention_us(work.shapes, work.number_format, levels)

    def _convolutions_us(self, work: Work, read: Convolutions, levels: Levels) -> Floats:
        figures = self.figures
        chosen = figures.convolution
        forward = 0.0 if work.backward.all() else convolution_us(read, levels, chosen, figures.cache)
        if not work.backward.any():
            return np.asarray(forward)
        weights = product_us(weight_gradients(read), levels, chosen.tile, figures.cache)
        images = convolution_us(read.towards_images(), levels, chosen, figures.cache)
        # The first layer's images have no gradient: half of the arithmetic.
        both = work.flops > 1.5 * read.flops
        return np.where(work.backward, weights + np.where(both, images, 0.0), forward)

    def _by_row_us(self, work: Work, levels: Levels) -> Floats:
        figures = self.figures
        cache, overlap = figures.cache, figures.stream_overlap
        rows = work.sizes
        assert isinstance(rows, ReducedRows)
        if work.kind is OperatorClass.NORMALIZATION:
            # Backward, the rows of the input and those of the gradient are both read again.
            row_bytes = rows.row_bytes * np.where(work.backward, 2.0, 1.0)
            chosen = figures.normalization
            return by_row_us(rows.count, row_bytes, work.moved_bytes, levels, cache, overlap, chosen)
        found = by_row_us(
            rows.count, rows.row_bytes, work.moved_bytes, levels, cache, overlap, figures.softmax
        )
        plain = streamed_us(work.moved_bytes, levels, cache, overlap)
        return np.where(rows.length <= SHORT_ROW, plain, found)

    def levels(
        self, kind: OperatorClass, number_format: str, gpu: GpuSpec, *, lasting: bool = True
    ) -> Levels:
        """What the GPU sustains at work of this kind."""
        figures = self.figures
        share = self._share(figures.compute_share, gpu)
        if kind is OperatorClass.CONVOLUTION and number_format == MEASURED:
            share = min(1.0, share * figures.convolution_factor)
        computed = number_format if kind in _COMPUTING else MEASURED
        tflops = (
            sustained_tflops(gpu, computed, share, figures.power)
            if lasting
            else reached_tflops(gpu, computed, share)
        )
        per_clock = figures.l2_bytes_per_clock * _L2_WIDER.get(generation(gpu), 1.0)
        l2 = per_clock * gpu.multiprocessors * gpu.clock_mhz
        memory = gpu.bandwidth_gb_s * 1e3 * self._share(figures.bandwidth_share, gpu)
        return Levels(
            np.array(float(gpu.multiprocessors)),
            np.array(tflops * 1e6),
            np.array(float(max(l2, memory))),
            np.array(memory),
            np.array(float(gpu.l2_bytes)),
        )

    def _share(self, shares: dict[str, float], gpu: GpuSpec) -> float:
        own = shares.get(generation(gpu))
        return own if own is not None else shares[self.figures.newest]

    def _known(self, gpu: GpuSpec) -> bool:
        return generation(gpu) in self.figures.compute_share

    def spread(self, kind: OperatorClass, gpu: GpuSpec, *, measured: bool) -> Spread:
        """How far measured times may lie from the predicted one, as factors."""
        figures = self.figures
        table = figures.known if self._known(gpu) else figures.left_out
        if measured:
            return table[kind]
        traffic = kind not in _COMPUTING and kind is not OperatorClass.HOST_COPY
        near = OperatorClass.ELEMENTWISE if traffic else OperatorClass.MATRIX
        calibrated, wider = table.get(kind if traffic else near, table[near]), _UNMEASURED
        if traffic:
            wider = _UNMEASURED_TRAFFIC
        return Spread(
            exp(-hypot(log(calibrated.low), log(wider.low))),
            exp(hypot(log(calibrated.high), log(wider.high))),
        )
