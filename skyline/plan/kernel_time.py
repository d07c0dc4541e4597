"""Times of a part's operators on a GPU: products and passes by the predictor, attention by its arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from skyline.lazy_dataclass import dataclass
from skyline.plan.constant import (
    ATTENTION_SHARE,
    ELEMENTWISE_PASSES,
    FLOAT8_GAIN,
    OTHER_ATTENTION_SHARE,
    OTHER_PEAK_SHARE,
    PEAK_SHARE,
)
from skyline.plan.layers import LayerPart
from skyline.plan.strategy import Precision
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorPredictor
from skyline.trace.record import OperatorShape

_LARGE = 8192


@dataclass(frozen=True, slots=True)
class WorkTime:
    """Time in µs by kind of operator. The errors of the kinds are independent."""

    product_us: float = 0.0
    attention_us: float = 0.0
    other_us: float = 0.0

    @property
    def total_us(self) -> float:
        """The sum: kernels of one stream do not overlap."""
        return self.product_us + self.attention_us + self.other_us

    def scaled(self, factor: float) -> WorkTime:
        """All times multiplied."""
        return WorkTime(self.product_us * factor, self.attention_us * factor, self.other_us * factor)


@dataclass(frozen=True, slots=True)
class PartTime:
    """Times of a part."""

    forward: WorkTime
    backward: WorkTime
    again: WorkTime
    """The work that full recomputation repeats."""

    @property
    def total_us(self) -> float:
        """Forward and backward pass."""
        return self.forward.total_us + self.backward.total_us

    def scaled(self, factor: float) -> PartTime:
        """All times multiplied."""
        return PartTime(self.forward.scaled(factor), self.backward.scaled(factor), self.again.scaled(factor))


@dataclass(slots=True)
class KernelTimes:
    """Times of operators on one GPU; each distinct operator is predicted once."""

    gpu: GpuSpec
    predictor: OperatorPredictor
    _known: dict[OperatorShape, float] = field(default_factory=dict[OperatorShape, float])

    def part(self, part: LayerPart, precision: Precision) -> PartTime:
        """Forward and backward time of a part at its number format."""
        return PartTime(*(self.work(one, precision) for one in (part.forward, part.backward, part.again)))

    def work(self, shapes: Sequence[OperatorShape], precision: Precision) -> WorkTime:
        """The time of operators one after the other."""
        self._learn(shapes)
        product = attention = other = 0.0
        for shape in shapes:
            if is_attention(shape):
                attention += self._attention_us(shape)
            elif is_product(shape):
                product += self._known[shape] * self._correction(shape)
            else:
                other += self._known[shape] * ELEMENTWISE_PASSES.value
        if precision is Precision.FLOAT8 and self.gpu.tflops_fp8:
            product /= FLOAT8_GAIN.value
        return WorkTime(product, attention, other)

    def _correction(self, shape: OperatorShape) -> float:
        """Factor that moves predicted products to the sustained rate. Ratios between shapes remain as predicted."""
        dtype = shape.dtypes[0] if shape.dtypes else "bfloat16"
        sustained = self._sustained(dtype)
        if sustained is None:
            return 1.0
        large = _square(dtype)
        self._learn((large,))
        return large.flops / sustained / self._known[large]

    def _sustained(self, dtype: str) -> float | None:
        """Sustained FLOP per µs of large 16-bit products. None for formats that only the predictor covers."""
        peak = {"bfloat16": self.gpu.tflops_bf16, "float16": self.gpu.tflops_fp16}.get(dtype)
        if not peak or not self.gpu.fp16_on_tensor_cores:
            return None
        return peak * 1e6 * PEAK_SHARE.get(self.gpu.architecture, OTHER_PEAK_SHARE).value

    def _attention_us(self, shape: OperatorShape) -> float:
        dtype = shape.dtypes[0] if shape.dtypes else "bfloat16"
        large = _square(dtype)
        self._learn((large,))
        rate = self._sustained(dtype) or large.flops / self._known[large]
        share = ATTENTION_SHARE.get(self.gpu.architecture, OTHER_ATTENTION_SHARE).value
        return max(shape.flops / (rate * share), self._bytes_us(shape.bytes_moved))

    def _bytes_us(self, size_bytes: float) -> float:
        return size_bytes / (self.gpu.bandwidth_gb_s * 1e3)

    def _learn(self, shapes: Iterable[OperatorShape]) -> None:
        new = [one for one in dict.fromkeys(shapes) if one not in self._known]
        if new:
            for shape, time in zip(new, self.predictor.predict(new, self.gpu), strict=True):
                self._known[shape] = time.time_us.value


def is_attention(shape: OperatorShape) -> bool:
    """True for fused attention."""
    return "scaled_dot_product" in shape.operator


def is_product(shape: OperatorShape) -> bool:
    """True for matrix products and convolutions."""
    return shape.flops > 0 and any(name in shape.operator for name in ("mm", "conv", "linear", "matmul"))


def _square(dtype: str) -> OperatorShape:
    side = (_LARGE, _LARGE)
    return OperatorShape(
        "aten::mm", (side, side), (dtype, dtype), (side,), (dtype,), 2 * _LARGE**3, 3 * 2 * _LARGE**2
    )
