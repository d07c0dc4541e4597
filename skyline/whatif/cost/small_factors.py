"""CPU time besides the large product of a linear layer whose weight is a Kronecker product.

After the product with the larger factor, the numbers are copied so that those which the smaller factor mixes
follow one another. They are multiplied by it, copied back, and a bias is added. The backward pass copies its
gradients as often, and multiplies for the gradients of the input and of the weight. The narrow side of these
products is the number of blocks. Their rate in libraries does not follow from their arithmetic, so the model
uses a measured time per number.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import numpy as np

from skyline.interval import End, Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.constant import EPYC, Constant
from skyline.whatif.cost.thread_scaling import gained

_BENCHMARK = "benchmarks/kronecker_layers.py, one thread, ns for each number"


def _measured(value: float, low: float, high: float, of: str) -> Constant:
    return Constant(value, low, high, f"{_BENCHMARK}: {of}", machine=EPYC)


PRODUCT_NS = {
    blocks: _measured(*ends, "a product with a square factor of so many rows")
    for blocks, ends in {
        2: (2.2, 1.6, 3.3),
        4: (1.7, 1.2, 2.5),
        8: (1.4, 1.0, 2.1),
        16: (0.43, 0.3, 0.65),
        32: (0.71, 0.5, 1.1),
    }.items()
}
INPUT_NS = {
    blocks: _measured(*ends, "the gradient of the input of such a product")
    for blocks, ends in {
        2: (1.7, 1.2, 2.6),
        4: (1.3, 0.9, 2.0),
        8: (0.96, 0.7, 1.5),
        16: (0.4, 0.28, 0.6),
        32: (0.7, 0.5, 1.1),
    }.items()
}
WEIGHT_NS = {
    blocks: _measured(*ends, "the gradient of such a factor")
    for blocks, ends in {
        2: (0.84, 0.6, 1.3),
        4: (0.86, 0.6, 1.3),
        8: (0.88, 0.6, 1.3),
        16: (0.4, 0.28, 0.6),
        32: (0.75, 0.5, 1.1),
    }.items()
}
COPY_NS = {
    run: _measured(*ends, "a copy in which so many numbers follow one another")
    for run, ends in {
        2: (0.47, 0.33, 0.9),
        4: (0.43, 0.3, 0.85),
        8: (0.36, 0.25, 0.7),
        16: (0.31, 0.22, 0.6),
        32: (0.29, 0.2, 0.6),
        64: (0.37, 0.25, 0.75),
        128: (0.4, 0.28, 0.8),
    }.items()
}
PART = Constant.at(
    0.92,
    "benchmarks/kronecker_layers.py: these products and copies on two threads take 0.54 of the time on one",
    machine=EPYC,
)
_WEIGHT_DIVIDED_FROM = Constant.at(
    8,
    "benchmarks/kronecker_layers.py: gradients of smaller factors take as long on two threads as on one",
    machine=EPYC,
)
_DIVIDED_FROM = Constant.at(
    32_768, "numbers from which PyTorch divides a copy (``at::internal::GRAIN_SIZE``)"
)
_READ_AND_WRITTEN = Constant.at(8.0, "bytes: a number of float32 is read and one is written")


@dataclass(frozen=True, slots=True)
class SmallFactor:
    """A Kronecker layer whose smaller factor has ``blocks`` rows and columns, called on ``rows`` rows."""

    rows: float
    inputs: int
    outputs: int
    blocks: int
    bias: bool = True

    @property
    def numbers(self) -> float:
        """The count of numbers between both factors."""
        return self.rows * self.outputs


def added_us(layer: SmallFactor, threads: int, rate: Interval, end: End, *, back: bool) -> float:
    """The time of a pass besides the large product and the calls, in µs.

    ``rate`` is the bytes per µs of a plain operator; the best case has the highest rate.
    """
    numbers, plain_us = layer.numbers, _plain_us(layer.numbers, rate, end)
    divided = gained(PART.value, threads) if numbers >= _DIVIDED_FROM.value else 1.0
    # Beyond the measured sizes, the arithmetic per number counts, which grows with the blocks.
    wider = max(1.0, layer.blocks / max(PRODUCT_NS))
    each_ns = divided * by_size(INPUT_NS if back else PRODUCT_NS, layer.blocks, end)
    if back:
        alone = layer.blocks < _WEIGHT_DIVIDED_FROM.value
        each_ns += (1.0 if alone else divided) * by_size(WEIGHT_NS, layer.blocks, end)
    found = wider * numbers * each_ns / 1e3
    for run in (layer.blocks, layer.outputs // layer.blocks):
        found += max(divided * numbers * by_size(COPY_NS, run, end) / 1e3, plain_us)
    # The forward pass adds a bias; its gradient is a sum, which writes next to nothing.
    return found + (plain_us * (0.5 if back else 1.0) if layer.bias else 0.0)


def by_size(known: Mapping[int, Constant], size: int, end: End) -> float:
    """The value interpolated between the nearest sizes on a logarithmic scale; constant beyond them."""
    places = [log(one) for one in known]
    values = [log(getattr(one, end)) for one in known.values()]
    return float(np.exp(np.interp(log(size), places, values)))


def _plain_us(numbers: float, rate: Interval, end: End) -> float:
    bytes_per_us = {"value": rate.value, "low": rate.high, "high": rate.low}[end]
    return _READ_AND_WRITTEN.value * numbers / bytes_per_us
