"""The backward pass as a parallel scan: products of Jacobians in Θ(log n) steps in place of n steps (BPPSA).

Wang, Bai, Pekhimenko, Scaling back-propagation by parallel scan algorithm, MLSys 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, expm1, log1p, sqrt

from skyline.lazy_dataclass import dataclass
from skyline.whatif.constant import FLOAT_BYTES


@dataclass(frozen=True, slots=True)
class Jacobian:
    """A transposed Jacobian: it turns gradients of ``outputs`` numbers into those of ``inputs``, for each of ``rows``.

    ``rows`` is the number of rows of the layer's input: samples, or tokens of linear layers. Each row has its
    own Jacobian, because activation functions between layers depend on it. ``support`` is the share of
    entries that can differ from zero, as in the window of a convolution. ``operator`` is the number of
    multiplications per row if the layer's own operator does this; None for a product of Jacobians, which is a
    matrix in memory.
    """

    inputs: float
    outputs: float
    nonzeros: float
    rows: float
    support: float = 1.0
    operator: float | None = None

    @classmethod
    def of_layer(
        cls, inputs: float, outputs: float, operator: float, rows: float, density: float
    ) -> Jacobian:
        """The Jacobian of a layer with the share ``density`` of nonzero weights; its own operator skips no zeros."""
        support = min(1.0, operator / (inputs * outputs))
        return cls(inputs, outputs, operator * density, rows, support, operator)

    @property
    def filled(self) -> float:
        """The share of nonzero entries among those that can differ from zero."""
        return min(1.0, self.nonzeros / (self.support * self.inputs * self.outputs))

    def multiplications(self, later: Jacobian) -> float:
        """The multiplications per row of the product with the next layer's Jacobian, if zeros are skipped.

        Pooling between the two keeps only a part of the outputs.
        """
        return self.nonzeros * min(1.0, later.inputs / self.outputs) * later.nonzeros / later.inputs

    def before(self, later: Jacobian) -> Jacobian:
        """The product with the next layer's Jacobian; its nonzeros assume zeros at random places in the factors."""
        whole = 1.0 in (self.support, later.support)
        support = 1.0 if whole else min(1.0, (sqrt(self.support) + sqrt(later.support)) ** 2)
        both = self.filled * later.filled
        terms = self.support * later.support * later.inputs / support
        filled = 1.0 if both >= 1 else -expm1(terms * log1p(-both))
        nonzeros = filled * support * self.inputs * later.outputs
        return replace(self, outputs=later.outputs, nonzeros=nonzeros, support=support, operator=None)


@dataclass(frozen=True, slots=True)
class ScanDevice:
    """Rates of one of ``devices`` equal devices, and the least time between a step of the pass and the next one."""

    flop_per_us: float
    sparse_flop_per_us: float
    bytes_per_us: float
    least_step_us: float
    devices: int = 1

    def passes_us(self, chain: Sequence[Jacobian]) -> list[float]:
        """The time of the pass with 0, 1, 2, … levels of products, in µs: up, through the groups, and down.

        0 levels is the usual pass. A level multiplies pairs of neighbours. Gradients between groups come from
        the groups' products, gradients inside a group from its parts.
        """
        level, spent = list(chain), 0.0
        found: list[float] = []
        while True:
            found.append(spent + sum(self._step_us([self._apply_us(one)]) for one in level))
            if len(level) < 2:
                return found
            pairs = zip(level[::2], level[1::2], strict=False)
            spent += self._step_us([self._product_us(*pair) for pair in pairs])
            # The later one of each pair gives the gradient between the two.
            spent += self._step_us([self._apply_us(one) for one in level[1::2]])
            level = _above(level)

    def _product_us(self, first: Jacobian, later: Jacobian) -> float:
        """The time of the product for all rows, in µs: dense, or skipping zeros at the rate of sparse products."""
        dense = 2 * first.inputs * later.inputs * later.outputs / self.flop_per_us
        sparse = 2 * first.multiplications(later) / self.sparse_flop_per_us
        moved = first.nonzeros + later.nonzeros + first.before(later).nonzeros
        return first.rows * (min(dense, sparse) + FLOAT_BYTES.value * moved / self.bytes_per_us)

    def _apply_us(self, one: Jacobian) -> float:
        """The time of a gradient times the Jacobian, for all rows, in µs."""
        if one.operator is not None:
            return one.rows * 2 * one.operator / self.flop_per_us
        return one.rows * one.nonzeros * max(2 / self.flop_per_us, FLOAT_BYTES.value / self.bytes_per_us)

    def _step_us(self, times_us: Sequence[float]) -> float:
        """The time of independent work in one step, divided among the devices, in µs."""
        return self.least_step_us + max(*times_us, sum(times_us) / self.devices)


def best_depth(passes_us: Sequence[float]) -> int:
    """The number of levels, at least one, with the shortest pass."""
    return min(range(1, len(passes_us)), key=lambda depth: passes_us[depth])


def steps_in(layers: int, depth: int) -> int:
    """The number of sequential steps of a pass."""
    groups = layers
    for _ in range(depth):
        groups = ceil(groups / 2)
    return 2 * depth + groups


def matrix_bytes(chain: Sequence[Jacobian], depth: int) -> float:
    """The memory of all matrices that ``depth`` levels multiply and produce, in bytes."""
    level = list(chain)
    held = FLOAT_BYTES.value * sum(one.rows * one.nonzeros for one in level) if depth else 0.0
    for _ in range(depth):
        made = _above(level)
        held += FLOAT_BYTES.value * sum(one.rows * one.nonzeros for one in made[: len(level) // 2])
        level = made
    return held


def _above(level: list[Jacobian]) -> list[Jacobian]:
    """The products of pairs; an unpaired last one stays as it is."""
    pairs = zip(level[::2], level[1::2], strict=False)
    return [first.before(later) for first, later in pairs] + level[len(level) // 2 * 2 :]
