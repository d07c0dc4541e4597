"""Operator times from shapes alone: a roofline with shares of peak that were calibrated on measured GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp, hypot, log

import numpy as np

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorTime, TileUse
from skyline.trace.record import OperatorShape
from skyline_predictors.constants import Constants, Spread, constants
from skyline_predictors.matrix_time import MatrixConstants, MatrixShape, Throughput, matrix_us, tile_times
from skyline_predictors.memory_levels import Floats
from skyline_predictors.number_format import ELEMENT_BYTES, MEASURED, peak_tflops
from skyline_predictors.operator_class import OperatorClass, operator_class
from skyline_predictors.shape_reading import (
    bytes_moved,
    convolution_shape,
    deciding_format,
    matrix_shape,
    row_length,
)

_LEAST_US = 2.0
"""No kernel is faster than this, however little it does."""
_BUS_GB_S = 12.0
"""Rate of copies between host and GPU over PCI Express from pinned memory. Pageable memory reaches half of it."""
_SHARE_OF_MATRIX_SPEED = 0.6
"""Speed of fused attention's products relative to plain ones: softmax runs in between."""
_RECURRENT_STEP_US = 10.0
"""Least time of one step of a recurrent layer: it waits for the previous step, however little it computes."""
LONG_ROW = 1024
"""Softmax reads longer rows twice."""
_GFLOP_PER_WATT = {"Ada": (100.0, 1000.0)}
"""Rates that a board's power sustains, in plain float32 and on matrix units. Only small boards of this
architecture reach this limit: large float32 products on an L4 were measured at a fifth to a quarter of the
stated peak."""
_MEASURED_CLASSES = frozenset(
    {
        OperatorClass.MATRIX,
        OperatorClass.CONVOLUTION,
        OperatorClass.ELEMENTWISE,
        OperatorClass.SOFTMAX,
        OperatorClass.NORMALIZATION,
    }
)
_TRAFFIC_CLASSES = frozenset(OperatorClass) - {
    OperatorClass.MATRIX,
    OperatorClass.CONVOLUTION,
    OperatorClass.ATTENTION,
    OperatorClass.RECURRENT,
    OperatorClass.HOST_COPY,
}
_MEASURED_ARCHITECTURES = "P4, P100, V100, T4 and A100"
_UNMEASURED = Spread(0.5, 2.0)
"""For a class or number format without any measurement: a factor of two, independent of the measured spread."""
_UNMEASURED_TRAFFIC = Spread(0.7, 1.5)
"""The same for work that only moves bytes, whose speed depends little on the number format."""


class Roofline:
    """The predictor. ``figures`` replaces the calibrated constants while they are being calibrated."""

    name = "roofline"

    def __init__(self, figures: Constants | None = None) -> None:
        self._constants = figures or constants()

    def basis(self, device: GpuSpec) -> str:
        """Source of the times."""
        known = device.generation in self._constants.compute_share
        own = "" if known else f"the {device.name}'s own generation unmeasured; "
        return (
            f"data-sheet peaks of the {device.name} and shares of peak calibrated on float32 kernels of "
            f"{_MEASURED_ARCHITECTURES} ({own}16-bit and 8-bit formats, TF32 and fused attention unmeasured)"
        )

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        keys = [key_of(shape, device) for shape in shapes]
        times = np.maximum(_LEAST_US, self.kernels_us(shapes, keys, device))
        spreads = {key: self._spread_of(key, device) for key in set(keys)}
        found: list[OperatorTime] = []
        for key, value in zip(keys, times.tolist(), strict=True):
            spread, measured = spreads[key]
            interval = Interval(value, value * spread.low, value * spread.high)
            found.append(OperatorTime(interval, measured, key[0].value))
        return found

    def measured_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> list[float]:
        """Time of each operator alone in µs as timed from outside, without TF32, like the data."""
        keys = [(operator_class(shape.operator), deciding_format(shape)) for shape in shapes]
        beside = np.array([self._constants.overhead_us[kind] for kind, _ in keys])
        times: list[float] = (np.maximum(_LEAST_US, self.kernels_us(shapes, keys, device)) + beside).tolist()
        return times

    def tile_use(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[TileUse | None]:
        """The use of tiles and waves by each product."""
        groups: dict[OperatorKey, dict[int, MatrixShape]] = defaultdict(dict)
        for place, shape in enumerate(shapes):
            key = key_of(shape, device)
            product = product_of(key[0], shape)
            if product is not None:
                groups[key][place] = product
        found: dict[int, TileUse] = {}
        for (kind, number_format), products in groups.items():
            units, chosen = self._matrix_units(kind, number_format, device)
            element_bytes = ELEMENT_BYTES.get(number_format, 4)
            uses = tile_uses(tuple(products.values()), element_bytes, units, chosen)
            found.update(zip(products, uses, strict=True))
        return [found.get(place) for place in range(len(shapes))]

    def _spread_of(self, key: OperatorKey, gpu: GpuSpec) -> tuple[Spread, bool]:
        kind, number_format = key
        measured = kind in _MEASURED_CLASSES and number_format == MEASURED
        return self.spread(kind, gpu, measured=measured), measured

    def kernel_us(self, kind: OperatorClass, shape: OperatorShape, number_format: str, gpu: GpuSpec) -> float:
        """The time on the GPU in µs, without the launch and without the least time of a kernel."""
        return float(self.kernels_us([shape], [(kind, number_format)], gpu)[0])

    def kernels_us(
        self, shapes: Sequence[OperatorShape], keys: Sequence[OperatorKey], gpu: GpuSpec
    ) -> Floats:
        """Times of many operators in µs, each in its class and number format."""
        groups: dict[OperatorKey, list[int]] = defaultdict(list)
        for place, key in enumerate(keys):
            groups[key].append(place)
        times = np.zeros(len(shapes))
        for (kind, number_format), places in groups.items():
            times[places] = self._group_us(kind, [shapes[place] for place in places], number_format, gpu)
        return times

    def _group_us(
        self, kind: OperatorClass, shapes: list[OperatorShape], number_format: str, gpu: GpuSpec
    ) -> Floats:
        moved = bytes_moved(shapes)
        flops = np.array([float(shape.flops) for shape in shapes])
        if kind is OperatorClass.HOST_COPY:
            return moved / (_BUS_GB_S * 1e3)
        if kind is OperatorClass.RECURRENT:
            steps = [shape.inputs[0][0] if shape.inputs and shape.inputs[0] else 1 for shape in shapes]
            rate = self._flop_per_us(kind, number_format, gpu)
            return np.maximum(np.array(steps) * _RECURRENT_STEP_US, flops / rate)
        if kind in (OperatorClass.MATRIX, OperatorClass.CONVOLUTION):
            # Such an operator has no arithmetic of its own and only moves bytes.
            times = moved / self._bytes_per_us(gpu)
            counted = np.flatnonzero(flops > 0)
            if len(counted):
                few = [shapes[place] for place in counted.tolist()]
                times[counted] = self._products_us(kind, few, moved[counted], number_format, gpu)
            return times
        traffic = np.array([self._traffic(kind, shape) for shape in shapes])
        times = moved * traffic / self._bytes_per_us(gpu)
        if not np.any(flops > 0):
            return times
        if kind is OperatorClass.ATTENTION:
            flop_per_us = self._flop_per_us(kind, number_format, gpu) * _SHARE_OF_MATRIX_SPEED
        else:
            flop_per_us = gpu.tflops_fp32 * 1e6 * self._share(self._constants.compute_share, gpu)
        return np.maximum(times, flops / flop_per_us)

    def _products_us(
        self,
        kind: OperatorClass,
        shapes: list[OperatorShape],
        moved: Floats,
        number_format: str,
        gpu: GpuSpec,
    ) -> Floats:
        products = [product for shape in shapes if (product := product_of(kind, shape)) is not None]
        sustained, chosen = self._matrix_units(kind, number_format, gpu)
        times = matrix_us(products, moved, ELEMENT_BYTES.get(number_format, 4), sustained, chosen)
        # A backward convolution consists of two products of about the forward one's size.
        whole = [shape.flops / product.flops for shape, product in zip(shapes, products, strict=True)]
        return times * np.maximum(1.0, whole)

    def _matrix_units(
        self, kind: OperatorClass, number_format: str, gpu: GpuSpec
    ) -> tuple[Throughput, MatrixConstants]:
        """The rates of products of a class and format, and the constants that were calibrated for them."""
        rate = self._flop_per_us(kind, number_format, gpu)
        plain = kind is OperatorClass.CONVOLUTION and number_format == MEASURED
        chosen = self._constants.convolution if plain else self._constants.matrix
        return Throughput(gpu.multiprocessors, rate, gpu.bandwidth_gb_s * 1e3), chosen

    def _flop_per_us(self, kind: OperatorClass, number_format: str, gpu: GpuSpec) -> float:
        figures = self._constants
        # In float32 some convolutions need less arithmetic than their definition. Matrix units always do all
        # of it.
        short_cuts = kind is OperatorClass.CONVOLUTION and number_format == MEASURED
        shares = figures.convolution_share if short_cuts else figures.compute_share
        sustained = peak_tflops(gpu, number_format) * self._share(shares, gpu)
        if gpu.architecture in _GFLOP_PER_WATT:
            plain, units = _GFLOP_PER_WATT[gpu.architecture]
            per_watt = plain if number_format in (MEASURED, "float64") else units
            sustained = min(sustained, per_watt * gpu.board_power_watts / 1e3)
        return sustained * 1e6

    def _bytes_per_us(self, gpu: GpuSpec) -> float:
        return gpu.bandwidth_gb_s * 1e3 * self._share(self._constants.bandwidth_share, gpu)

    def _share(self, shares: dict[str, float], gpu: GpuSpec) -> float:
        own = shares.get(gpu.generation)
        return own if own is not None else shares[self._constants.newest]

    def _traffic(self, kind: OperatorClass, shape: OperatorShape) -> float:
        if kind is OperatorClass.SOFTMAX and row_length(shape) > LONG_ROW:
            return self._constants.long_softmax_traffic
        return self._constants.traffic.get(kind, 1.0)

    def spread(self, kind: OperatorClass, gpu: GpuSpec, *, measured: bool) -> Spread:
        """Factors between the predicted time and the ends of its interval."""
        figures = self._constants
        table = figures.known if gpu.generation in figures.compute_share else figures.left_out
        if measured:
            return table[kind]
        traffic = kind in _TRAFFIC_CLASSES
        # Matrix units compute a convolution as a plain product.
        near = (
            kind
            if traffic and kind in table
            else OperatorClass.ELEMENTWISE
            if traffic
            else OperatorClass.MATRIX
        )
        calibrated, wider = table[near], _UNMEASURED_TRAFFIC if traffic else _UNMEASURED
        return Spread(
            exp(-hypot(log(calibrated.low), log(wider.low))),
            exp(hypot(log(calibrated.high), log(wider.high))),
        )


OperatorKey = tuple[OperatorClass, str]


def key_of(shape: OperatorShape, gpu: GpuSpec) -> OperatorKey:
    """The class of an operator, and the number format in which PyTorch computes it by default."""
    kind, number_format = operator_class(shape.operator), deciding_format(shape)
    if kind is OperatorClass.CONVOLUTION and number_format == MEASURED and gpu.compute_capability >= (8, 0):
        # TF32 is cuDNN's default for convolutions. It is not the default for matrix products.
        number_format = "tfloat32" if gpu.tflops_tf32 and gpu.vendor == "NVIDIA" else number_format
    return kind, number_format


def product_of(kind: OperatorClass, shape: OperatorShape) -> MatrixShape | None:
    """The product behind an operator. None for other operators."""
    if shape.flops <= 0:
        return None
    if kind is OperatorClass.MATRIX:
        return matrix_shape(shape)
    return convolution_shape(shape) if kind is OperatorClass.CONVOLUTION else None


def tile_uses(
    products: Sequence[MatrixShape], element_bytes: int, gpu: Throughput, constants: MatrixConstants
) -> list[TileUse]:
    """The use of tiles and waves by each product, with its fastest tile."""
    times = tile_times(products, element_bytes, gpu, constants)
    count = len(products)
    best = times.taken.reshape(-1, count).argmin(axis=0)
    column = np.arange(count)
    filled: list[float] = times.filled.reshape(-1, count)[best, column].tolist()
    busy: list[float] = times.busy.reshape(-1, count)[best, column].tolist()
    return [TileUse(share, time) for share, time in zip(filled, busy, strict=True)]
