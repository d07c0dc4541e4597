"""Operator times from shapes alone: a roofline whose shares of peak were calibrated on measured GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, hypot, log, prod

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorTime
from skyline.trace.shape import OperatorShape
from skyline_predictors.constants import Constants, Spread, constants
from skyline_predictors.matrix_time import MatrixShape, Throughput, matrix_us
from skyline_predictors.number_format import ELEMENT_BYTES, MEASURED, peak_tflops
from skyline_predictors.operator_class import OperatorClass, operator_class

_LEAST_US = 2.0
"""No kernel is done sooner than this, however little it does."""
_BUS_GB_S = 12.0
"""Copies between host and GPU over PCI Express, pinned memory; pageable memory reaches half of it."""
_SHARE_OF_MATRIX_SPEED = 0.6
"""Fused attention does its products at this share of the speed of plain ones: softmax runs in between."""
_RECURRENT_STEP_US = 10.0
"""One step of a recurrent layer has to wait for the one before, however little it computes."""
LONG_ROW = 1024
"""Softmax over longer rows reads its input twice."""
_GFLOP_PER_WATT = {"Ada": (100.0, 1000.0)}
"""What a board's power sustains, plain float32 and matrix units. Only small boards of this architecture meet it:
large float32 products on an L4 were measured at a fifth to a quarter of the stated peak."""
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
"""Of a class or number format without any measurement: a factor of two, independent of the measured spread."""
_UNMEASURED_TRAFFIC = Spread(0.7, 1.5)
"""The same for work that only moves bytes: its speed depends little on what the bytes mean."""


class Roofline:
    """The predictor. ``figures`` replaces the calibrated constants, for calibration itself."""

    name = "roofline"

    def __init__(self, figures: Constants | None = None) -> None:
        self._constants = figures or constants()

    def basis(self, device: GpuSpec) -> str:
        """What the times rest on."""
        known = _generation(device) in self._constants.compute_share
        own = "" if known else f"the {device.name}'s own generation unmeasured; "
        return (
            f"data-sheet peaks of the {device.name} and shares of peak calibrated on float32 kernels of "
            f"{_MEASURED_ARCHITECTURES} ({own}16-bit and 8-bit formats, TF32 and fused attention unmeasured)"
        )

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        """The time of each shape."""
        return [self._one(shape, device) for shape in shapes]

    def measured_us(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> list[float]:
        """What timing each by itself from outside would show in µs, without TF32, as the data were measured."""
        times: list[float] = []
        for shape in shapes:
            kind = operator_class(shape.operator)
            kernel = max(_LEAST_US, self.kernel_us(kind, shape, _format(shape), device))
            times.append(kernel + self._constants.overhead_us[kind])
        return times

    def _one(self, shape: OperatorShape, gpu: GpuSpec) -> OperatorTime:
        kind = operator_class(shape.operator)
        number_format = _format(shape)
        if (
            kind is OperatorClass.CONVOLUTION
            and number_format == MEASURED
            and gpu.compute_capability >= (8, 0)
        ):
            # cuDNN's default, unlike that of matrix products.
            number_format = "tfloat32" if gpu.tflops_tf32 and gpu.vendor == "NVIDIA" else number_format
        value = max(_LEAST_US, self.kernel_us(kind, shape, number_format, gpu))
        measured = kind in _MEASURED_CLASSES and number_format == MEASURED
        spread = self.spread(kind, gpu, measured=measured)
        return OperatorTime(Interval(value, value * spread.low, value * spread.high), measured, kind.value)

    def kernel_us(self, kind: OperatorClass, shape: OperatorShape, number_format: str, gpu: GpuSpec) -> float:
        """The time on the GPU without launch and without the least time of a kernel."""
        moved = shape.bytes_moved or _bytes(shape)
        if kind is OperatorClass.HOST_COPY:
            return moved / (_BUS_GB_S * 1e3)
        if kind is OperatorClass.RECURRENT:
            steps = shape.inputs[0][0] if shape.inputs and shape.inputs[0] else 1
            rate = self._flop_per_us(kind, number_format, gpu)
            return max(steps * _RECURRENT_STEP_US, shape.flops / rate)
        if kind in (OperatorClass.MATRIX, OperatorClass.CONVOLUTION) and shape.flops > 0:
            return self._product_us(kind, shape, moved, number_format, gpu)
        traffic_us = moved * self._traffic(kind, shape) / self._bytes_per_us(gpu)
        if shape.flops <= 0:
            return traffic_us
        if kind is OperatorClass.ATTENTION:
            flop_per_us = self._flop_per_us(kind, number_format, gpu) * _SHARE_OF_MATRIX_SPEED
        else:
            flop_per_us = gpu.tflops_fp32 * 1e6 * self._share(self._constants.compute_share, gpu)
        return max(traffic_us, shape.flops / flop_per_us)

    def _product_us(
        self, kind: OperatorClass, shape: OperatorShape, moved: int, number_format: str, gpu: GpuSpec
    ) -> float:
        figures = self._constants
        sustained = Throughput(
            gpu.multiprocessors, self._flop_per_us(kind, number_format, gpu), gpu.bandwidth_gb_s * 1e3
        )
        if kind is OperatorClass.MATRIX:
            product, chosen = matrix_shape(shape), figures.matrix
        else:
            product = convolution_shape(shape)
            chosen = figures.convolution if number_format == MEASURED else figures.matrix
        element = ELEMENT_BYTES.get(number_format, 4)
        one = matrix_us(product, moved, element, sustained, chosen)
        # A backward convolution is two products of about the forward one's size.
        return one * max(1.0, shape.flops / product.flops)

    def _flop_per_us(self, kind: OperatorClass, number_format: str, gpu: GpuSpec) -> float:
        figures = self._constants
        # In float32 some convolutions need less arithmetic than their definition; matrix units do it all.
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
        own = shares.get(_generation(gpu))
        return own if own is not None else shares[self._constants.newest]

    def _traffic(self, kind: OperatorClass, shape: OperatorShape) -> float:
        if kind is OperatorClass.SOFTMAX and _row_length(shape) > LONG_ROW:
            return self._constants.long_softmax_traffic
        return self._constants.traffic.get(kind, 1.0)

    def spread(self, kind: OperatorClass, gpu: GpuSpec, *, measured: bool) -> Spread:
        """How far measured times may lie from the predicted one, as factors."""
        figures = self._constants
        table = figures.known if _generation(gpu) in figures.compute_share else figures.left_out
        if measured:
            return table[kind]
        traffic = kind in _TRAFFIC_CLASSES
        # On matrix units a convolution is computed as the product that it is.
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


def matrix_shape(shape: OperatorShape) -> MatrixShape:
    """The product behind an operator, told from its output and its arithmetic."""
    output = shape.outputs[0] if shape.outputs else ()
    if len(output) < 2 or not prod(output):
        elements = max(1, prod(output))
        return MatrixShape(1, elements, 1, max(1, shape.flops // (2 * elements)))
    inner = max(1, round(shape.flops / (2 * prod(output))))
    batch = prod(output[:-2])
    matrices = [dimensions for dimensions in shape.inputs if len(dimensions) >= 2]
    if matrices and len(matrices[-1]) == 2:
        # One matrix for the whole batch: a single, taller product.
        return MatrixShape(1, batch * output[-2], output[-1], inner)
    return MatrixShape(batch, output[-2], output[-1], inner)


def convolution_shape(shape: OperatorShape) -> MatrixShape:
    """The forward convolution as the product that it is: output pixels by output channels over patches."""
    tensors = [dimensions for dimensions in shape.inputs if len(dimensions) >= 3]
    backward = "backward" in shape.operator.lower() and len(tensors) >= 3
    if backward:
        output, image, weight = tensors[:3]
    else:
        if len(tensors) < 2 or not shape.outputs or not prod(shape.outputs[0]):
            return MatrixShape(1, max(1, shape.flops // 2), 1, 1)
        output, (image, weight) = shape.outputs[0], tensors[:2]
    groups = max(1, image[1] // max(1, weight[1]))
    pixels = output[0] * prod(output[2:])
    return MatrixShape(groups, pixels, max(1, output[1] // groups), prod(weight[1:]))


def _generation(gpu: GpuSpec) -> str:
    """``8.0``: how NVIDIA numbers the generations of its GPUs; no AMD part was measured."""
    major, minor = gpu.compute_capability
    return f"{major}.{minor}" if gpu.vendor == "NVIDIA" else gpu.architecture


def _format(shape: OperatorShape) -> str:
    """The number format that decides the speed: that of the first tensor of floating-point numbers."""
    floating = [
        name for name in (*shape.dtypes, *shape.output_dtypes) if "float" in name or "complex" in name
    ]
    return floating[0] if floating else MEASURED


def _bytes(shape: OperatorShape) -> int:
    return sum(
        prod(dimensions) * ELEMENT_BYTES.get(name, 4)
        for dimensions, name in (
            *zip(shape.inputs, shape.dtypes, strict=False),
            *zip(shape.outputs, shape.output_dtypes, strict=False),
        )
    )


def _row_length(shape: OperatorShape) -> int:
    sizes = shape.inputs or shape.outputs
    return sizes[0][-1] if sizes and sizes[0] else 1
