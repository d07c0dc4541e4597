"""The times of terms: products by the recorded rate or a GPU's predictor, other terms by the bytes they move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from skyline.interval import End, Interval
from skyline.whatif.catalogue.models.product_terms import Op, Size
from skyline.whatif.constant import Constant
from skyline.whatif.cost.factored_layers import Product, products_us
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.number_formats import NARROW, gpu
from skyline.whatif.subject import Subject

_BYTES_PER_US = Constant.at(
    10e3, "an assumption: a core moves as much, as for operators of several models at once"
)
_KERNEL_US = Constant.at(2.0, "an assumption: the start and end of a kernel that moves little")
_VIEW_US = Constant.at(
    0.01,
    "an assumption: a view costs a GPU nothing; of two forms with the same kernels that with fewer is chosen",
)


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts of a value: its size, and whether it depends on more than parameters, and on trained parameters.

    ``given`` is true for a value that no term computes.
    """

    size: Size
    activation: bool
    trained: bool
    given: bool = False


@dataclass(frozen=True)
class TermCosts:
    """The costs of the terms of one block, at the end ``end`` of the ranges.

    ``rate`` is the operations per µs of the recorded products on a CPU. ``recorded_us`` are the times of
    convolutions and normalizations, by the number of their term.
    """

    subject: Subject
    rate: float
    number_format: str
    evaluating: bool
    recorded_us: Mapping[int, float]
    end: End = "value"

    def us(self, op: Op, numbers: Sequence[int], children: Sequence[Traits], made: Traits) -> float:
        """The time of a term with its backward pass in µs, never 0. An evaluation prepares its parameters once."""
        if op in (Op.LEAF, Op.JOINED) or (self.evaluating and not made.activation):
            return _VIEW_US.value
        if op in (Op.PRODUCT, Op.AFFINE):
            return self._product_us(children[-2], children[-1], made)
        if op in (Op.CONVOLVED, Op.NORMED, Op.FOLDED):
            return max(_VIEW_US.value, self.recorded_us.get(numbers[0], 0.0))
        if op is Op.SWAPPED:
            return self._view_us
        size = self._bytes(made.size)
        if op is Op.COLUMNS:
            # One call gives all columns, and another one joins their gradients.
            moved_us = 0.0 if self.evaluating else self._moving_us(2 * size) - self._call_us
            return self._view_us / 2 + moved_us
        if op is Op.SUM:
            return self._moving_us(size + sum(self._bytes(one.size) for one in children))
        return self._moving_us(2 * size) * (1 if self.evaluating else 2)

    def _product_us(self, left: Traits, right: Traits, made: Traits) -> float:
        inner, columns = right.size[-2], right.size[-1]
        forward = Product(max(1, prod(made.size) // columns), inner, columns)
        products = [forward]
        if not self.evaluating:
            of_left, of_right = forward.backward
            products += [of_left] * left.trained + [of_right] * right.trained
        rate = Interval.exact(self.rate)
        took_us = products_us(self.subject, products, rate, self.number_format, self.end)
        if self.evaluating or not (left.given and left.activation):
            return took_us
        # Each reader of a value but the first adds its part of the gradient; the first is the same in both
        # forms.
        return took_us + self._moving_us(3 * self._bytes(left.size))

    @property
    def _view_us(self) -> float:
        return _VIEW_US.value if self.subject.on_gpu else CALL_US

    @property
    def _call_us(self) -> float:
        return _KERNEL_US.value if self.subject.on_gpu else CALL_US

    def _bytes(self, size: Size) -> int:
        return prod(size) * (2 if self.number_format in NARROW else 4)

    def _moving_us(self, size_bytes: float) -> float:
        spec = gpu(self.subject)
        if spec is not None:
            return self._call_us + size_bytes / (spec.bandwidth_gb_s * 1e3)
        return self._call_us + size_bytes / _BYTES_PER_US.value
